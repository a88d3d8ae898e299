#ifndef STEADYSTATE_KERNELS_RECURRENCE_GROWING_SUM_H_
#define STEADYSTATE_KERNELS_RECURRENCE_GROWING_SUM_H_

#include <cstddef>

namespace steadystate {

// Advances one head by one token where the past fades hardly or not at all, so
// that the state is kept in double: with equal increments a float sum is off
// by 1e-2 after 10^6 tokens.
//   S <- diag(decay) S + k v^T,   o <- scale * S^T q.
// The token's own (k, v) is included in o. One pass: each element of the state
// is read once and written once. Products and sums are in double.
//   decay  f64[K]     in, or null for ones
//   q, k   f32[K]     in      v  f32[V]  in
//   state  f64[K, V]  in/out  o  f32[V]  out
// REQUIRES: o and state alias nothing; K, V >= 1.
// Cost: 5 K V flop; 16 K V bytes of state traffic.
void GrowingSumStep(size_t K, size_t V, float scale, const double* decay,
                    const float* q, const float* k, const float* v,
                    double* state, float* o);

// o <- scale * S^T q, the same bits as GrowingSumStep for the same S.
//   q  f32[K]  in     state  f64[K, V]  in     o  f32[V]  out
void GrowingSumRead(size_t K, size_t V, float scale, const float* q,
                    const double* state, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_GROWING_SUM_H_
