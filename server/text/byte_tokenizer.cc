#include "server/text/byte_tokenizer.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace steadystate {
namespace {

constexpr size_t kByteValues = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  absl::string_view kind() const override { return "bytes"; }

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (const char byte : text) {
      tokens.push_back(static_cast<unsigned char>(byte));
    }
    return tokens;
  }

  void AppendBytes(int32_t token, std::string& to) const override {
    if (token < static_cast<int32_t>(kByteValues)) {
      to.push_back(static_cast<char>(token));
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeByteTokenizer(
    size_t vocab_size) {
  if (vocab_size < kByteValues) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", vocab_size,
                     " tokens; the byte tokenizer needs ", kByteValues));
  }
  return std::make_unique<ByteTokenizer>();
}

}  // namespace steadystate
