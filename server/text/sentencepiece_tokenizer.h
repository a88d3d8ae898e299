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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_TOKENIZER_H_
