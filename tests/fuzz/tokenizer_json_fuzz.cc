// A tokenizer.json. What is accepted encodes and decodes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/model/tokenizer/json_tokenizer.h"
#include "tests/fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kVocabSize = 512;
  std::vector<std::string> warnings;
  const auto tokenizer = steadystate::MakeJsonTokenizer(
      absl::string_view(reinterpret_cast<const char*>(data), size), "input",
      kVocabSize, warnings);
  if (tokenizer.ok()) steadystate::UseTokenizer(**tokenizer, kVocabSize);
  return 0;
}
