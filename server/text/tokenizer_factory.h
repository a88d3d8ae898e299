#ifndef STEADYSTATE_SERVER_TEXT_TOKENIZER_FACTORY_H_
#define STEADYSTATE_SERVER_TEXT_TOKENIZER_FACTORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// Token id = byte value. `vocab_size` is at least 256 (INVALID_ARGUMENT
// otherwise); ids of 256 and above stand for no text.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteTokenizer(size_t vocab_size);

// The tokenizer of a tokenizer.json with a model of type BPE. `text` is the
// file's, `what` names it in messages. INVALID_ARGUMENT for what is malformed
// or does not fit a model of `vocab_size` tokens; UNIMPLEMENTED for steps or
// options that are not supported. "truncation" and "padding" are not read, and
// "post_processor" only tells Tokenizer::text_prefix: the server neither cuts
// text nor adds tokens. What was left out is added to `warnings`.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeJsonTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size,
    std::vector<std::string>& warnings);

// The tokenizer of a SentencePiece tokenizer.model, by SentencePiece itself.
// `bytes` are the file's, `what` names it in messages. INVALID_ARGUMENT if it
// is none, has more than `vocab_size` pieces or is refused by
// CheckSentencePieceFile; UNIMPLEMENTED if the module with SentencePiece, which
// lies beside the program, cannot be loaded.
//
// Kept, although it takes a module and goes without sanitizers where gRPC is:
// ids have to be the library's for every text. They come of a normalizer that
// is compiled into each file (a trie of replacements), of scores added in
// float in the library's order, where ties are decided by rounding, and of
// BPE-type models besides; a second implementation would have to be shown equal
// in all of that, over texts of all scripts, and again for each new version.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(
    absl::string_view bytes, absl::string_view what, size_t vocab_size);

// A checkpoint's tokenizer, and what was noticed about it.
struct TokenizerChoice {
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none
  std::vector<std::string> warnings;
};

// The tokenizer of the checkpoint in `directory`, for a model of `vocab_size`
// tokens: bytes if `bytes` (config.json says so), otherwise the first that is
// there of tokenizer.json, tokenizer.model and rwkv_vocab_*.txt. One of a kind
// that is not supported is passed over with a warning, since a model without a
// tokenizer still serves token ids; so are files of other forms (vocab.json,
// tekken.json, tiktoken's) where there is none of these. INVALID_ARGUMENT,
// naming the file, for one that is malformed or does not fit the model: to pass
// over it would hide that the checkpoint is damaged. NOT_FOUND as
// ReadModelFile.
absl::StatusOr<TokenizerChoice> MakeTokenizer(const std::string& directory,
                                              bool bytes, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_TOKENIZER_FACTORY_H_
