#ifndef STEADYSTATE_KERNELS_RECURRENCE_BONUS_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_BONUS_DECAY_H_

#include <cstddef>

#include "kernels/recurrence/decays.h"

namespace steadystate {

// Advances one head by one token, readout before update, the token itself
// weighed by a bonus instead of the decay (RWKV-6, Peng et al. 2024):
//   o <- (S + diag(bonus) k v^T)^T r,   then S <- diag(decay) S + k v^T.
// One pass: each element of the state is read once and written once.
//   decay, bonus, r, k  f32[K]     in      v  f32[V]  in
//   state               f32[K, V]  in/out  o  f32[V]  out
// REQUIRES: o and state alias nothing; any alignment; K, V >= 1.
// Cost: 9 K V flop; 8 K V bytes of state traffic.
void BonusDecayStep(size_t K, size_t V, Decays decay, const float* bonus,
                    const float* r, const float* k, const float* v,
                    float* state, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_BONUS_DECAY_H_
