#ifndef STEADYSTATE_SERVER_TEXT_TOKENIZER_FACTORY_H_
#define STEADYSTATE_SERVER_TEXT_TOKENIZER_FACTORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// A checkpoint's tokenizer, and what was noticed about it.
struct TokenizerChoice {
  std::unique_ptr<Tokenizer> tokenizer;  // null: the checkpoint has none
  std::vector<std::string> warnings;
};

// The tokenizer of the checkpoint in `directory`, for a model of `vocab_size`
// tokens: bytes if `bytes` (config.json says so), otherwise the first that is
// there of tokenizer.json, tokenizer.model and rwkv_vocab_*.txt. One of a kind
// that is not supported is passed over with a warning, since a model without a
// tokenizer still serves token ids. INVALID_ARGUMENT, naming the file, for one
// that is malformed or does not fit the model: to pass over it would hide that
// the checkpoint is damaged.
absl::StatusOr<TokenizerChoice> MakeTokenizer(const std::string& directory,
                                              bool bytes, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_TOKENIZER_FACTORY_H_
