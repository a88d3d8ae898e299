#ifndef STEADYSTATE_SERVER_TEXT_ADDED_TOKENS_H_
#define STEADYSTATE_SERVER_TEXT_ADDED_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/bpe.h"
#include "server/text/marked_text.h"
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
  // Text between added tokens, or one of them.
  struct Segment {
    absl::string_view text;
    absl::string_view literal;  // its marks, as MarkedText's
    int32_t token;              // -1: text
  };

  // A token that `bpe` has, too, has its id there. One whose id is `vocab_size`
  // or more, as checkpoints have whose embedding was never widened, is left out
  // with a warning. INVALID_ARGUMENT for what is malformed.
  static absl::StatusOr<AddedTokens> FromJson(
      const nlohmann::json& list, const Bpe& bpe, const Normalizer& normalizer,
      size_t vocab_size, std::vector<std::string>& warnings);

  // Cuts text as it came, at the tokens that are looked for there. None is
  // found where a byte of its spelling is literal, but those of blanks alone.
  // White space beside it that it takes may be literal. Segments point into the
  // text.
  std::vector<Segment> CutRaw(const MarkedText& text) const {
    return Cut(text, raw_);
  }
  // The same of text that was normalized, at those that are normalized, too.
  std::vector<Segment> CutNormalized(const MarkedText& text) const {
    return Cut(text, normalized_);
  }

  // Those that are no blanks, by id: what literal text has none of.
  const std::vector<bool>& marks() const { return marks_; }

  // By id. `content` is that of the file, or what the normalizer made of it.
  const absl::flat_hash_map<int32_t, AddedToken>& tokens() const {
    return tokens_;
  }

 private:
  // Tokens that are looked for together.
  struct Table {
    PrefixTable all;
    PrefixTable blanks;
  };

  std::vector<Segment> Cut(const MarkedText& marked, const Table& table) const;

  absl::flat_hash_map<int32_t, AddedToken> tokens_;
  std::vector<bool> marks_;
  Table raw_;
  Table normalized_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_ADDED_TOKENS_H_
