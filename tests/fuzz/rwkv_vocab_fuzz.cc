// An rwkv_vocab_v20230424.txt. What is accepted encodes and decodes.
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "server/model/tokenizer/rwkv_tokenizer.h"
#include "tests/fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kVocabSize = 512;
  const auto tokenizer = steadystate::MakeRwkvTokenizer(
      absl::string_view(reinterpret_cast<const char*>(data), size), "input",
      kVocabSize);
  if (tokenizer.ok()) steadystate::UseTokenizer(**tokenizer, kVocabSize);
  return 0;
}
