// An rwkv_vocab_v20230424.txt. What is accepted encodes and decodes.
#include "server/text/rwkv_tokenizer.h"
#include "tests/fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  steadystate::FuzzTokenizer(data, size, steadystate::MakeRwkvTokenizer);
  return 0;
}
