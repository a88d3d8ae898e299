#ifndef STEADYSTATE_TESTS_FUZZ_USE_TOKENIZER_H_
#define STEADYSTATE_TESTS_FUZZ_USE_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"

namespace steadystate {

// Encodes some texts, odd ones among them, and decodes every token of a model
// of `vocab_size`.
void UseTokenizer(const Tokenizer& tokenizer, size_t vocab_size);

// Reads a tokenizer's file with `make`, which is called with its bytes, its
// name and the size of the model's vocabulary, and uses what is accepted.
template <typename Make>
void FuzzTokenizer(const uint8_t* data, size_t size, Make make) {
  constexpr size_t kVocabSize = 512;
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      make(absl::string_view(reinterpret_cast<const char*>(data), size),
           "input", kVocabSize);
  if (tokenizer.ok()) UseTokenizer(**tokenizer, kVocabSize);
}

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_FUZZ_USE_TOKENIZER_H_
