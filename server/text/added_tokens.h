#ifndef STEADYSTATE_SERVER_TEXT_ADDED_TOKENS_H_
#define STEADYSTATE_SERVER_TEXT_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/bpe.h"
#include "server/text/normalizer.h"
#include "server/text/prefix_table.h"

namespace steadystate {

// A token that is found in text before anything else is done to it.
struct AddedToken {
  std::string content;
  bool special = false;      // stands for no text
  bool single_word = false;  // only if no word character is beside it
  bool strip_left = false;   // takes the white space before it
  bool strip_right = false;  // and after it
};

// The "added_tokens" of a tokenizer.json. Immutable; thread-safe.
class AddedTokens {
 public:
  // A stretch of text between added tokens, or one of them.
  struct Part {
    absl::string_view text;
    int32_t token;  // -1: text
  };

  // A token that `bpe` has, too, has its id there. One whose id is `vocab_size`
  // or more, as checkpoints have whose embedding was never widened, is left out
  // with a warning. INVALID_ARGUMENT for what is malformed.
  static absl::StatusOr<AddedTokens> FromJson(
      const nlohmann::json& list, const Bpe& bpe, const Normalizer& normalizer,
      size_t vocab_size, std::vector<std::string>& warnings);

  // Cuts text as it came, at the tokens that are looked for there ...
  std::vector<Part> CutRaw(absl::string_view text) const;
  // ... and text that was normalized, at those that are normalized, too.
  std::vector<Part> CutNormalized(absl::string_view text) const;

  // By id. `content` is that of the file, or what the normalizer made of it.
  const absl::flat_hash_map<int32_t, AddedToken>& tokens() const {
    return tokens_;
  }

 private:
  std::vector<Part> Cut(absl::string_view text, const PrefixTable& table) const;

  absl::flat_hash_map<int32_t, AddedToken> tokens_;
  PrefixTable raw_;
  PrefixTable normalized_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_ADDED_TOKENS_H_
