#ifndef STEADYSTATE_KERNELS_RECURRENCE_KEY_DECAY_H_
#define STEADYSTATE_KERNELS_RECURRENCE_KEY_DECAY_H_

#include <cstddef>

namespace steadystate {

// Advances one head by one token, decay per key channel:
//   S <- diag(decay) S + k v^T,   o <- scale * S^T q.
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once.
//   decay  f32[K]     in     q, k  f32[K]  in     v  f32[V]  in
//   state  f32[K, V]  in/out                      o  f32[V]  out
// REQUIRES: o and state alias nothing; any alignment; K, V >= 1.
// Cost: 5 K V flop; 8 K V bytes of state traffic.
void KeyDecayStep(size_t K, size_t V, float scale, const float* decay,
                  const float* q, const float* k, const float* v, float* state,
                  float* o);

// The same with each decay as a sum of two numbers, as SplitDecay gives it: the
// float nearest to it and what that lacks. A float near one is off by 3e-8,
// which a state that remembers 10^4 tokens makes 3e-4.
//   decay, decay_low  f32[K]  in
void SplitKeyDecayStep(size_t K, size_t V, float scale, const float* decay,
                       const float* decay_low, const float* q, const float* k,
                       const float* v, float* state, float* o);

// The same with one decay for all keys.
void SplitScalarDecayStep(size_t K, size_t V, float scale, float decay,
                          float decay_low, const float* q, const float* k,
                          const float* v, float* state, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_KEY_DECAY_H_
