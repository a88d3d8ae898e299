// A tokenizer.model. Of SentencePiece itself, which is not built for it, the
// fuzzer sees no paths. What is accepted encodes and decodes.
#include "server/text/tokenizer_factory.h"
#include "tests/fuzz/use_tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  steadystate::FuzzTokenizer(data, size,
                             steadystate::MakeSentencePieceTokenizer);
  return 0;
}
