#ifndef STEADYSTATE_SERVER_TEXT_BYTE_TOKENIZER_H_
#define STEADYSTATE_SERVER_TEXT_BYTE_TOKENIZER_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// Token id = byte value. `vocab_size` is at least 256 (INVALID_ARGUMENT
// otherwise); ids of 256 and above stand for no text.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteTokenizer(size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_BYTE_TOKENIZER_H_
