#ifndef STEADYSTATE_KERNELS_RECURRENCE_COMPLEX_KEY_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_COMPLEX_KEY_DECAY_H_

#include <cstddef>

#include "kernels/recurrence/decays.h"

namespace steadystate {

// Advances one head by one token, a complex decay per key channel (GateLoop,
// Katsch 2023); q, k and v are real:
//   S <- diag(decay_re + i decay_im) S + k v^T,   o <- scale * Re(S^T q).
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once.
//   decay_re, decay_im, q, k  f32[K]        in     v  f32[V]  in
//   state                     f32[2, K, V]  in/out o  f32[V]  out
// The state is the plane of the real parts, then that of the imaginary ones.
// REQUIRES: o and state alias nothing; any alignment; K, V >= 1.
// Cost: 19 K V flop; 16 K V bytes of state traffic.
void ComplexKeyDecayStep(size_t K, size_t V, float scale, Decays decay_re,
                         Decays decay_im, const float* q, const float* k,
                         const float* v, float* state, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_COMPLEX_KEY_DECAY_H_
