#ifndef STEADYSTATE_TESTS_FUZZ_USE_TOKENIZER_H_
#define STEADYSTATE_TESTS_FUZZ_USE_TOKENIZER_H_

#include <cstddef>

#include "server/model/tokenizer.h"

namespace steadystate {

// Encodes some texts, odd ones among them, and decodes every token of a model
// of `vocab_size`.
void UseTokenizer(const Tokenizer& tokenizer, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_FUZZ_USE_TOKENIZER_H_
