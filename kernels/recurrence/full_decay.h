#ifndef STEADYSTATE_KERNELS_RECURRENCE_FULL_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_FULL_DECAY_H_

#include "kernels/recurrence/step.h"

namespace steadystate {

// Advances one head by one token, a decay of its own for every element, in the
// form of Mamba (Gu and Dao 2023):
//   S_ij <- exp(-rate_ij step_j) S_ij + k_i v_j,   o <- scale * S^T q.
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once.
//   rate   f32[K, V]  in, >= 0     step  f32[V]  in, >= 0
//   state  f32[K, V]  in/out
// A decay is within 2 ulp + half an ulp per unit of rate_ij step_j, and above
// 0.98 what it lacks of one is; below 2^-126 it counts as 0.
// REQUIRES: the state aliases nothing; any alignment.
// Cost: K V exponentials, which set the pace where one core has the memory's
// bandwidth to itself; 12 K V bytes of traffic, 4 K V of them from a cache if
// other sessions' heads share the rates.
void FullDecayStep(const HeadToken& token, const float* rate, const float* step,
                   float* state);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_FULL_DECAY_H_
