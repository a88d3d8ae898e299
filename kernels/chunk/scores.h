#ifndef STEADYSTATE_KERNELS_CHUNK_SCORES_H_
#define STEADYSTATE_KERNELS_CHUNK_SCORES_H_

#include <cstddef>

#include "kernels/chunk/chunk_rows.h"

namespace steadystate {

// How much each token of a chunk sees of each one before it, decays aside. What
// heads have in common (Mamba-2's keys and queries) is computed once for all.

// The keys of a chunk of L tokens, transposed.
//   rows  f32[L, K; its stride]  in
//   keys  f32[K, kChunkTokens]   out; columns from L on are unspecified
// REQUIRES: 1 <= L <= kChunkTokens, K >= 1; no aliasing.
void TransposeKeys(size_t L, size_t K, ChunkRows rows, float* keys);

// scores[i, j] <- q_i . k_j for j <= i; the rest is unspecified.
//   q       f32[L, K; its stride]  in
//   keys    as TransposeKeys leaves them
//   scores  f32[L, kChunkTokens]   out
void ChunkScores(size_t L, size_t K, ChunkRows q, const float* keys,
                 float* scores);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_SCORES_H_
