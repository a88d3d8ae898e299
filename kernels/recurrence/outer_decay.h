#ifndef STEADYSTATE_KERNELS_RECURRENCE_OUTER_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_OUTER_DECAY_H_

#include <cstddef>

#include "kernels/recurrence/decays.h"

namespace steadystate {

// Advances one head by one token, decay per key and per value channel (DFW's
// gate of rank one; with decay_k all ones a decay per value channel):
//   S <- (decay_k decay_v^T) o S + k v^T,   o <- scale * S^T q.
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once.
//   decay_k, q, k  f32[K]     in      decay_v, v  f32[V]  in
//   state          f32[K, V]  in/out  o           f32[V]  out
// REQUIRES: o and state alias nothing; any alignment; K, V >= 1.
// Cost: 14 K V flop; 8 K V bytes of state traffic.
void OuterDecayStep(size_t K, size_t V, float scale, Decays decay_k,
                    Decays decay_v, const float* q, const float* k,
                    const float* v, float* state, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_OUTER_DECAY_H_
