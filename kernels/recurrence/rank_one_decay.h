#ifndef STEADYSTATE_KERNELS_RECURRENCE_RANK_ONE_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_RANK_ONE_DECAY_H_

#include "kernels/recurrence/step.h"

namespace steadystate {

// What a transition does beside the decay: it reads the state under a and
// writes what it has read under b.
struct RankOne {
  const float* a = nullptr;  // f32[K]  in
  const float* b = nullptr;  // f32[K]  in
};

// Advances one head by one token, a transition of diagonal plus rank one:
//   u = S^T a,   S <- diag(decay) S + b u^T + k v^T,   o <- scale * S^T q.
// u is taken of S before the decay; the token's own (k, v) is included in o.
// The rules that are of this form (Yang et al. 2024, Peng et al. 2025), beta
// being a scalar:
//   delta rule, gated or not, KDA   a = decay o k,  b = -beta k,  k := beta k
//   RWKV-7                          a = kappa,      b = -(kappa o a)
// Some columns at a time are read and updated while they are in cache: each
// element of the state is read from memory once and written once. So that
// memory does not wait for the second pass, both passes fetch into the cache
// what comes after these columns, at last `next`, the state of the head that
// this thread advances next; null if it is not known. No result depends on it.
//   decay  of K channels
//   state  f32[K, V]  in/out     next  f32[K, V]  not read, or null
// REQUIRES: the state aliases nothing; any alignment.
// Cost: 9 K V flop, 11 if the decays have two parts; 8 K V bytes of state
// traffic.
void RankOneDecayStep(const HeadToken& token, const Decays& decay,
                      const RankOne& change, float* state,
                      const float* next = nullptr);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_RANK_ONE_DECAY_H_
