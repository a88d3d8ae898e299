#ifndef STEADYSTATE_KERNELS_CHUNK_CHUNK_ROWS_H_
#define STEADYSTATE_KERNELS_CHUNK_CHUNK_ROWS_H_

#include <algorithm>
#include <cstddef>

namespace steadystate {

// Tokens that a chunk has at most. Tables between two tokens of a chunk have
// rows this far apart, so that vectors may run over a row's end. What tokens of
// a chunk have with each other grows with its length, what they have with the
// state is done as well by 32 as by 64.
inline constexpr size_t kChunkTokens = 32;

// With fewer tokens steps are as fast.
inline constexpr size_t kFewestChunkTokens = 4;

// A vector for each token of a chunk, where it lies.
struct ChunkRows {
  const float* data = nullptr;
  size_t stride = 0;

  const float* At(size_t t) const { return data + t * stride; }
};

// The rows' first `width` elements side by side, f32[L, width]: rows a power of
// two apart would meet in the same few lines of the cache.
inline ChunkRows PackRows(size_t L, size_t width, ChunkRows rows, float* to) {
  for (size_t t = 0; t < L; ++t) std::copy_n(rows.At(t), width, to + t * width);
  return {to, width};
}

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_CHUNK_ROWS_H_
