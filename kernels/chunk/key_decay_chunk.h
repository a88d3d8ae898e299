#ifndef STEADYSTATE_KERNELS_CHUNK_KEY_DECAY_CHUNK_H_
#define STEADYSTATE_KERNELS_CHUNK_KEY_DECAY_CHUNK_H_

#include <cstddef>

#include "kernels/chunk/token_pairs.h"

namespace steadystate {

// One head over a chunk of L tokens whose decay is a factor per key channel, in
// matrix form (Yang et al. 2024): with D_i the product of the factors of tokens
// 0 to i, M_ij that of j + 1 to i, E_j that of j + 1 to L - 1, channel by
// channel,
//   o_i = scale (S^T (q_i o D_i) + sum_{j <= i} (q_i . (M_ij o k_j)) v_j)
//   S  <- diag(D_{L-1}) S + sum_j (k_j o E_j) v_j^T.
// With a bonus the readout is before the update (RWKV-6): D_i and M_ij lack the
// factor of token i, and the bonus stands in the place of M_ii.
// All factors are products of decays, never quotients: nothing overflows.

// Tokens that such a chunk has at most: what two tokens have between them is
// computed pair by pair, so that short chunks are the cheaper ones.
inline constexpr size_t kKeyChunkTokens = 16;

// What the chunk's tokens read; S stays.
struct KeyDecayRead {
  size_t L = 0, K = 0, V = 0;
  float scale = 1;
  ChunkRows alpha{};             // f32[K], in [0, 1]
  ChunkRows q{}, k{};            // f32[K]
  ChunkRows v{};                 // f32[V]
  const float* bonus = nullptr;  // f32[K], or null: none
  const float* state = nullptr;  // f32[K, V]
  float* scratch = nullptr;      // f32[KeyReadFloats(K)]
  float* o = nullptr;            // f32[L, V; o_stride]  overwritten
  size_t o_stride = 0;
};
inline constexpr size_t KeyReadFloats(size_t K) {
  return kKeyChunkTokens * (kKeyChunkTokens + K) + 2 * K;
}
void ReadKeyDecayChunk(const KeyDecayRead& args);

// What they leave in S.
struct KeyDecayUpdate {
  size_t L = 0, K = 0, V = 0;
  ChunkRows alpha{};         // f32[K], in [0, 1]
  ChunkRows alpha_low{};     // f32[K], what alpha lacks (SplitDecay); or none
  ChunkRows k{};             // f32[K]
  ChunkRows v{};             // f32[V]
  float* state = nullptr;    // f32[K, V]  in/out
  float* scratch = nullptr;  // f32[KeyUpdateFloats(K)]
};
inline constexpr size_t KeyUpdateFloats(size_t K) {
  return (kKeyChunkTokens + 2) * K;
}
void UpdateKeyDecayChunk(const KeyDecayUpdate& args);

// What the delta rule writes under the keys of a chunk whose decay is a factor
// per key channel (Kimi Delta Attention: Kimi Team 2025): with D_i and M_ij as
// above,
//   u_i = beta_i (v_i - S^T (D_i o k_i) - sum_{j < i} (k_i . (M_ij o k_j))
//   u_j),
// by forward substitution. With u in the place of v the chunk is one of key
// decay: S and the outputs are those of
//   S <- diag(alpha) S,  u = beta (v - S^T k),  S <- S + k u^T,
//   o = scale S^T q.
struct KeyDecayDelta {
  size_t L = 0, K = 0, V = 0;
  ChunkRows alpha{};             // f32[K], in [0, 1]
  ChunkRows k{};                 // f32[K]
  ChunkRows v{};                 // f32[V]
  ChunkRows beta{};              // f32[1]
  const float* state = nullptr;  // f32[K, V], before the chunk
  float* scratch = nullptr;      // f32[KeyReadFloats(K)]
  float* u = nullptr;            // f32[L, V]  overwritten
};
void SolveKeyDecayDelta(const KeyDecayDelta& args);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_KEY_DECAY_CHUNK_H_
