#ifndef STEADYSTATE_SERVER_ENGINE_INPUTS_H_
#define STEADYSTATE_SERVER_ENGINE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "server/engine/task.h"

namespace steadystate {

// What a request wants to have absorbed: tokens or embeddings, f32[n, D].
// Borrows both.
class Inputs {
 public:
  Inputs(std::span<const int32_t> tokens, std::span<const float> embeddings,
         size_t hidden_size)
      : tokens_(tokens), embeddings_(embeddings), hidden_size_(hidden_size) {}

  // Tokens, or vectors.
  size_t rows() const {
    return tokens_.empty() ? embeddings_.size() / hidden_size_ : tokens_.size();
  }

  // Makes rows [first, first + rows) what `piece` takes in.
  void Set(size_t first, size_t rows, Piece& piece) const {
    piece.rows = rows;
    if (tokens_.empty()) {
      piece.embeddings =
          embeddings_.subspan(first * hidden_size_, rows * hidden_size_);
    } else {
      piece.tokens = tokens_.subspan(first, rows);
    }
  }

  // What they hold in memory.
  uint64_t bytes() const {
    return tokens_.size() * sizeof(int32_t) +
           embeddings_.size() * sizeof(float);
  }

 private:
  std::span<const int32_t> tokens_;
  std::span<const float> embeddings_;
  size_t hidden_size_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_INPUTS_H_
