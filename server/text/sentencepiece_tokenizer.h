#ifndef STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_TOKENIZER_H_
#define STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_TOKENIZER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// The tokenizer of a SentencePiece tokenizer.model, by SentencePiece itself.
// `bytes` are the file's, `what` names it in messages. INVALID_ARGUMENT if it
// is none, has more than `vocab_size` pieces or is refused by
// CheckSentencePieceFile; UNIMPLEMENTED if the module
// with SentencePiece, which lies beside the program, cannot be loaded.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(
    absl::string_view bytes, absl::string_view what, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_TOKENIZER_H_
