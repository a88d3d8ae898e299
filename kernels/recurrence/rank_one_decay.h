#ifndef STEADYSTATE_KERNELS_RECURRENCE_RANK_ONE_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_RANK_ONE_DECAY_H_

#include <cstddef>

#include "kernels/recurrence/decays.h"

namespace steadystate {

// Advances one head by one token, a transition of diagonal plus rank one:
//   u = S^T a,   S <- diag(decay) S + b u^T + k v^T,   o <- scale * S^T q.
// u is taken of S before the decay; the token's own (k, v) is included in o.
// The rules that are of this form (Yang et al. 2024, Peng et al. 2025), beta
// being a scalar:
//   delta rule, gated or not, KDA   a = decay o k,  b = -beta k,  k := beta k
//   RWKV-7                          a = kappa,      b = -(kappa o a)
// Two passes over a block of columns while it is in cache: each element of the
// state is read from memory once and written once. So that memory does not wait
// for the second pass, both fetch into the cache what comes after the block, at
// last `next`, the state of the head that this thread advances next; null if it
// is not known. No result depends on it.
//   decay, a, b, q, k  f32[K]     in      v  f32[V]  in
//   state              f32[K, V]  in/out  o  f32[V]  out
//   next               f32[K, V]  not read, or null
// REQUIRES: o and state alias nothing; any alignment; K, V >= 1.
// Cost: 9 K V flop, 11 if the decays have two parts; 8 K V bytes of state
// traffic.
void RankOneDecayStep(size_t K, size_t V, float scale, Decays decay,
                      const float* a, const float* b, const float* q,
                      const float* k, const float* v, float* state, float* o,
                      const float* next = nullptr);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_RANK_ONE_DECAY_H_
