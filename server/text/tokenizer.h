#ifndef STEADYSTATE_SERVER_TEXT_TOKENIZER_H_
#define STEADYSTATE_SERVER_TEXT_TOKENIZER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// A token that stands for no text, but that is found in one by its spelling.
struct SpecialToken {
  int32_t id = 0;
  std::string text;

  bool operator==(const SpecialToken&) const = default;
};

// A part of a text. In a literal one nothing but text is read: the words of
// others, which are not to end what they are quoted in.
struct TextPart {
  absl::string_view text;
  bool literal = false;
};

// Text to token ids and back. Immutable; thread-safe. tokenizer_factory.h
// chooses among the kinds.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // A name for ModelService: "bytes", "byte_level_bpe", "byte_fallback_bpe",
  // "bpe", "sentencepiece" or "rwkv".
  virtual absl::string_view kind() const = 0;

  // True if `token` is one of the tokenizer's. Tables of embeddings may have
  // more rows: to have a round number of them, or for tokens to come.
  // REQUIRES: 0 <= token < vocabulary size.
  virtual bool HasToken(int32_t token) const = 0;

  // What the libraries of the field put before a text by themselves, and Encode
  // does not: mostly a token that begins a sequence, or nothing.
  virtual std::span<const int32_t> text_prefix() const { return {}; }

  // Those that Encode finds wherever they stand in a text that is not literal,
  // by id.
  virtual std::vector<SpecialToken> special_tokens() const { return {}; }

  // Most bytes of a text that Encode takes in reasonable time and memory.
  virtual size_t max_text_bytes() const { return SIZE_MAX; }

  // The ids of `text`, each below the vocabulary size. No special tokens are
  // added; those whose text occurs in `text` are found if the kind does so. Any
  // bytes are accepted; kinds that know characters take what is not UTF-8 for
  // U+FFFD. INVALID_ARGUMENT if a pattern takes too long over it (Regex::Cut).
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const = 0;

  // The ids of what all parts say together, as Encode gives them, but that no
  // added token, special or not, is found where the bytes that spell it, or of
  // which the normalizer makes its spelling, are literal, be it one of them.
  // Words are joined across the parts' borders. Added tokens of blanks alone,
  // which code is written with, are text and found all the same. Where that
  // changes nothing, and so without literal parts, the ids are Encode's.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeParts(
      std::span<const TextPart> parts) const = 0;

  // Appends the bytes that `token` stands for in the middle of a text: perhaps
  // a part of a UTF-8 character, perhaps none (special tokens). A token that
  // means "space, then a word" has its space here, whatever came before.
  // REQUIRES: 0 <= token < vocabulary size.
  virtual void AppendBytes(int32_t token, std::string& to) const = 0;

  // The bytes of a text that begins with `tokens`. As AppendBytes of each, less
  // what Encode puts before a text of itself, such as the first space of Llama
  // and SentencePiece: mostly, Decode(Encode(text)) is the text.
  // REQUIRES: as AppendBytes.
  virtual std::string Decode(std::span<const int32_t> tokens) const {
    std::string text;
    for (const int32_t token : tokens) AppendBytes(token, text);
    return text;
  }
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_TOKENIZER_H_
