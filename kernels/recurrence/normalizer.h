#ifndef STEADYSTATE_KERNELS_RECURRENCE_NORMALIZER_H_
#define STEADYSTATE_KERNELS_RECURRENCE_NORMALIZER_H_

#include <cstddef>

#include "kernels/recurrence/decays.h"

namespace steadystate {

// The sum of keys that linear attention divides by, in double: in float it
// would be off by 5e-3 after 10^7 tokens.

// Advances one head by one token and reads it out:
//   z <- decay o z + k,   returns q . z.
// The token's own k is included. Products and sums are in double.
//   decay  f32[K]  in, or none for ones     q, k  f32[K]  in
//   z      f64[K]  in/out, aligned to a double
// REQUIRES: z aliases nothing; K >= 1.
double NormalizerStep(size_t K, Decays decay, const float* q, const float* k,
                      double* z);

// Returns q . z, the same bits as NormalizerStep for the same z.
//   q  f32[K]  in     z  f64[K]  in
double NormalizerRead(size_t K, const float* q, const double* z);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_NORMALIZER_H_
