#ifndef STEADYSTATE_KERNELS_RECURRENCE_GROWING_SUM_H_
#define STEADYSTATE_KERNELS_RECURRENCE_GROWING_SUM_H_

#include <cstddef>

#include "kernels/recurrence/step.h"

namespace steadystate {

// A state whose past fades hardly or not at all is kept in double: with equal
// increments a float sum is off by 1e-2 after 10^6 tokens.

// Advances one head by one token:
//   S <- diag(decay) S + k v^T,   o <- scale * S^T q.
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once. Products and sums are in double.
//   decay  f64[K]     in, or null for ones
//   state  f64[K, V]  in/out
// REQUIRES: the state aliases nothing.
// Cost: 5 K V flop; 16 K V bytes of state traffic.
void GrowingSumStep(const HeadToken& token, const double* decay, double* state);

// o <- scale * S^T q, the same bits as GrowingSumStep for the same S.
//   state  f64[K, V]  in
void GrowingSumRead(const HeadToken& token, const double* state);

// Chunk kernels work in float: they read the state rounded, and what they add
// is added in double.

// narrow[i] <- state[i], rounded.
//   state  f64[n]  in     narrow  f32[n]  out
void NarrowState(size_t n, const double* state, float* narrow);

// state[i] <- kept state[i] + added[i].
//   added  f32[n]  in     state  f64[n]  in/out
void AddToState(size_t n, double kept, const float* added, double* state);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_GROWING_SUM_H_
