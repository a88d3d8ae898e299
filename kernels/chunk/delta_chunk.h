#ifndef STEADYSTATE_KERNELS_CHUNK_DELTA_CHUNK_H_
#define STEADYSTATE_KERNELS_CHUNK_DELTA_CHUNK_H_

#include <cstddef>

#include "kernels/chunk/chunk_rows.h"
#include "kernels/chunk/fading.h"

namespace steadystate {

// What the delta rule writes under the keys of a chunk of L tokens, one decay a
// token, or 1 (Yang et al. 2024): with D_i the fading from the start of the
// chunk to token i and M_ij that between j and i,
//   u_i = beta_i (v_i - D_i S^T k_i - sum_{j < i} M_ij (k_i . k_j) u_j),
// by forward substitution. With u in the place of v the chunk is one of scalar
// decay: S and the outputs are those of
//   S <- alpha S,  u = beta (v - S^T k),  S <- S + k u^T,  o = scale S^T q.
struct DeltaChunk {
  size_t L = 0, K = 0, V = 0;
  Fading fading{};
  ChunkRows k{};                      // f32[K]
  ChunkRows v{};                      // f32[V]
  ChunkRows beta{};                   // f32[1]
  const float* key_scores = nullptr;  // f32[L, kChunkTokens], ChunkScores of k
  const float* state = nullptr;       // f32[K, V], before the chunk
  float* weights = nullptr;           // f32[kWeightFloats], scratch
  float* u = nullptr;                 // f32[L, V]  overwritten
};
void SolveDeltaChunk(const DeltaChunk& args);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_DELTA_CHUNK_H_
