#ifndef STEADYSTATE_KERNELS_CHUNK_GROWING_STATE_H_
#define STEADYSTATE_KERNELS_CHUNK_GROWING_STATE_H_

#include <cstddef>

namespace steadystate {

// A state that is kept in double, seen by chunk kernels, which work in float:
// they read it rounded, and what they add is added in double.

// narrow[i] <- state[i], rounded.
//   state  f64[n]  in     narrow  f32[n]  out
void NarrowState(size_t n, const double* state, float* narrow);

// state[i] <- kept state[i] + added[i].
//   added  f32[n]  in     state  f64[n]  in/out
void AddToState(size_t n, double kept, const float* added, double* state);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_GROWING_STATE_H_
