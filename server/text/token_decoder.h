#ifndef STEADYSTATE_SERVER_TEXT_TOKEN_DECODER_H_
#define STEADYSTATE_SERVER_TEXT_TOKEN_DECODER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/unicode.h"

namespace steadystate {

// The "decoder" of a tokenizer.json: what text tokens stand for. Immutable;
// thread-safe.
//
// The reference library decodes a list of tokens at once. Here each token is
// decoded by itself, for the sake of streams, and StripText does what concerns
// the list as a whole. One thing differs: of bytes that are not UTF-8 the
// library makes as many U+FFFD as there are byte tokens in a row, while here
// they stay bytes, which turn into U+FFFD where text is shown.
class TokenDecoder {
 public:
  // From "ByteLevel", "Metaspace", "ByteFallback", "Replace", "Fuse", "Strip"
  // or a "Sequence" of such in which all after "Fuse" or "ByteLevel" are
  // "Strip". UNIMPLEMENTED for others and for null, INVALID_ARGUMENT for what
  // is malformed.
  static absl::StatusOr<TokenDecoder> FromJson(
      const nlohmann::json& description);

  // The bytes of a token as it is spelled in the vocabulary. `first`: it is the
  // first of a text, which matters to "Metaspace". Errors as Regex::Cut.
  absl::StatusOr<std::string> Decode(std::string token, bool first) const;

  // Takes from a whole text what "Strip" takes behind "Fuse".
  void StripText(std::string& text) const;

  // How long Decode can make a token.
  const Growth& growth() const { return growth_; }

  // True if there is a step "ByteLevel".
  bool byte_level() const { return byte_level_; }

 private:
  using Step = std::function<absl::StatusOr<std::string>(const std::string&,
                                                         bool first)>;
  // At most so many times `mark` from the start and from the end.
  struct Strip {
    std::string mark;
    size_t start;
    size_t stop;

    void Apply(std::string& text) const;
  };

  absl::StatusOr<Step> MakeReplace(const nlohmann::json& step);
  static absl::StatusOr<Step> MakeMetaspace(const nlohmann::json& step);
  static absl::StatusOr<Strip> ReadStrip(const nlohmann::json& step);
  absl::StatusOr<Step> MakeStep(const std::string& type,
                                const nlohmann::json& step);
  absl::Status Add(const nlohmann::json& step);

  std::vector<Step> steps_;
  Growth growth_;
  std::vector<Strip> strips_;
  bool fused_ = false;  // steps from here on see the whole text
  bool byte_level_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_TOKEN_DECODER_H_
