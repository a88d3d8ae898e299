#ifndef STEADYSTATE_SERVER_MODEL_TOKENIZER_H_
#define STEADYSTATE_SERVER_MODEL_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Text to token ids and back. Immutable; thread-safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // A name for ModelService: "bytes".
  virtual absl::string_view kind() const = 0;

  // The ids of `text`, without special tokens added. Any bytes are accepted.
  virtual std::vector<int32_t> Encode(absl::string_view text) const = 0;

  // Appends the bytes that `token` stands for: perhaps a part of a UTF-8
  // character, perhaps none (special tokens).
  // REQUIRES: 0 <= token < vocabulary size.
  virtual void AppendBytes(int32_t token, std::string& to) const = 0;
};

// Token id = byte value. `vocab_size` is at least 256 (INVALID_ARGUMENT
// otherwise); ids of 256 and above stand for no text.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteTokenizer(size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_TOKENIZER_H_
