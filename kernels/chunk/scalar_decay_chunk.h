#ifndef STEADYSTATE_KERNELS_CHUNK_SCALAR_DECAY_CHUNK_H_
#define STEADYSTATE_KERNELS_CHUNK_SCALAR_DECAY_CHUNK_H_

#include <cstddef>

#include "kernels/chunk/token_pairs.h"

namespace steadystate {

// One head over a chunk of L tokens whose decay is one factor a token, or 1, in
// matrix form (Sun et al. 2023; Dao and Gu 2024): with D_i the fading from the
// start of the chunk to token i, M_ij that between j and i, E_j that from j to
// the end,
//   o_i = scale (D_i S^T q_i + sum_{j <= i} M_ij (q_i . k_j) v_j)
//   S  <- D_{L-1} S + sum_j E_j k_j v_j^T.
// That is the recurrence S <- alpha S + k v^T, o = scale S^T q within rounding.

// What the chunk's tokens read; S stays.
struct ScalarDecayRead {
  size_t L = 0, K = 0, V = 0;
  float scale = 1;
  Fading fading{};
  ChunkRows q{};                  // f32[K]
  ChunkRows v{};                  // f32[V]
  const float* scores = nullptr;  // f32[L, kChunkTokens], of ChunkScores
  const float* state = nullptr;   // f32[K, V]
  float* weights = nullptr;       // f32[kWeightFloats], scratch
  float* o = nullptr;             // f32[L, V; o_stride]  overwritten
  size_t o_stride = 0;
};
inline constexpr size_t kWeightFloats =
    kChunkTokens * kChunkTokens + kChunkTokens;
void ReadScalarDecayChunk(const ScalarDecayRead& args);

// What they leave in S.
struct ScalarDecayUpdate {
  size_t L = 0, K = 0, V = 0;
  Fading fading{};
  ChunkRows k{};           // f32[K]
  ChunkRows v{};           // f32[V]
  float* state = nullptr;  // f32[K, V]  in/out
  // S is overwritten with the chunk's own sum, sum_j E_j k_j v_j^T.
  bool fresh = false;
  float* faded = nullptr;  // f32[L, V], scratch
};
void UpdateScalarDecayChunk(const ScalarDecayUpdate& args);

// o_i <- scale S^T q_i, for each token: S as it is, without the chunk's own.
//   q  f32[L, K; its stride]  in     state  f32[K, V]         in
//                                    o      f32[L, V; stride]  out
void ReadChunk(size_t L, size_t K, size_t V, float scale, ChunkRows q,
               const float* state, float* o, size_t o_stride);

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

#endif  // STEADYSTATE_KERNELS_CHUNK_SCALAR_DECAY_CHUNK_H_
