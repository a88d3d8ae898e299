// A tokenizer.json. What is accepted encodes and decodes.
#include <string>
#include <vector>

#include "server/text/tokenizer_factory.h"
#include "tests/fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> warnings;
  steadystate::FuzzTokenizer(
      data, size,
      [&warnings](absl::string_view text, absl::string_view what,
                  size_t vocab_size) {
        return steadystate::MakeJsonTokenizer(text, what, vocab_size, warnings);
      });
  return 0;
}
