#ifndef STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_FILE_H_
#define STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_FILE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Checks the bytes of a tokenizer.model, a message ModelProto, for what
// SentencePiece itself does not check and would be harmed by.
//
// INVALID_ARGUMENT for what is no message; for more than `vocab_size` pieces;
// for a piece that is empty, has a NUL or is longer than 1024 bytes; for more
// than 64 user defined pieces that begin each other; for a charsmap that
// CheckCharsMap refuses; for a text for unknown tokens of more than 1024 bytes,
// and for more than 1 MiB of options and self-tests.
absl::Status CheckSentencePieceFile(absl::string_view bytes, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_FILE_H_
