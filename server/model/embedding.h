#ifndef STEADYSTATE_SERVER_MODEL_EMBEDDING_H_
#define STEADYSTATE_SERVER_MODEL_EMBEDDING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/dtype.h"

namespace steadystate {

// One input of a batch: a token id, or an embedding that takes the place of the
// token's row of the embedding table.
struct InputRow {
  int32_t token = -1;                // in [0, vocab_size) unless ...
  const float* embedding = nullptr;  // ... f32[D] is given
};

// The table of token embeddings, [vocab_size, D], kept in the checkpoint's own
// element type; with bf16 weights it is kept as bf16 whatever it was. One row
// is converted at a time. Immutable; thread-safe.
class Embedding {
 public:
  // Copies `table`, which holds vocab_size * hidden_size elements.
  Embedding(TypedData table, size_t vocab_size, size_t hidden_size,
            DType weights);

  //   to  f32[D]  out.   REQUIRES: 0 <= token < vocab_size.
  void Row(int32_t token, float* to) const;

  // The table as kept: a tied head multiplies by the same values.
  TypedData table() const { return {bytes_.data(), dtype_}; }

 private:
  size_t hidden_size_;
  DType dtype_;
  std::vector<std::byte> bytes_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_EMBEDDING_H_
