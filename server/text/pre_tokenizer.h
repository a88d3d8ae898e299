#ifndef STEADYSTATE_SERVER_TEXT_PRE_TOKENIZER_H_
#define STEADYSTATE_SERVER_TEXT_PRE_TOKENIZER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/unicode.h"

namespace steadystate {

// The "pre_tokenizer" of a tokenizer.json: cuts text into words, which no token
// reaches across. Immutable; thread-safe.
class PreTokenizer {
 public:
  // From null (one word), "ByteLevel", "Split", "Digits", "Punctuation",
  // "Metaspace" or a "Sequence" of such. UNIMPLEMENTED for others,
  // INVALID_ARGUMENT for what is malformed.
  static absl::StatusOr<PreTokenizer> FromJson(
      const nlohmann::json& description);

  // The words of `text`, none of them empty. `first`: nothing was before it, no
  // special token either. Errors as Regex::Cut.
  // REQUIRES: `text` is UTF-8.
  absl::StatusOr<std::vector<std::string>> Words(std::string text,
                                                 bool first) const;

  // How long Words can make a text, all words together.
  const Growth& growth() const { return growth_; }

  // True if there is a step "ByteLevel".
  bool byte_level() const { return byte_level_; }

 private:
  struct Piece {
    std::string text;
    bool first;
  };
  struct Step {
    // Appends what becomes of one piece.
    std::function<absl::Status(const Piece&, std::vector<Piece>&)> apply;
    Growth growth;  // of a piece
  };

  static absl::StatusOr<Step> MakeByteLevel(const nlohmann::json& step);
  static absl::StatusOr<Step> MakeSplit(const nlohmann::json& step);
  static absl::StatusOr<Step> MakeDigits(const nlohmann::json& step);
  static absl::StatusOr<Step> MakePunctuation(const nlohmann::json& step);
  static absl::StatusOr<Step> MakeMetaspace(const nlohmann::json& step);
  absl::Status Add(const nlohmann::json& description);

  std::vector<Step> steps_;
  Growth growth_;
  bool byte_level_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_PRE_TOKENIZER_H_
