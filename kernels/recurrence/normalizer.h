#ifndef STEADYSTATE_KERNELS_RECURRENCE_NORMALIZER_H_
#define STEADYSTATE_KERNELS_RECURRENCE_NORMALIZER_H_

#include <cstddef>

#include "kernels/recurrence/step.h"

namespace steadystate {

// What normalised linear attention keeps beside its state: the sum of keys that
// it divides by, and the largest logarithms where keys are exponentials.

// Advances one head by one token and reads it out:
//   z <- decay o z + k,   returns q . z.
// The token's own k is included. Products and sums are in double: in float the
// sum would be off by 5e-3 after 10^7 tokens.
//   decay  of K channels, or none for ones     q, k  f32[K]  in
//   z      f64[K]  in/out, aligned to a double
// REQUIRES: z aliases nothing; K >= 1.
double NormalizerStep(size_t K, const Decays& decay, const float* q,
                      const float* k, double* z);

// Returns q . z, the same bits as NormalizerStep for the same z.
//   q  f32[K]  in     z  f64[K]  in
double NormalizerRead(size_t K, const float* q, const double* z);

// Features that are exponentials, given as their logarithms, for linear
// attention with a normaliser (Hedgehog, Performer, causal Efficient
// Attention). Channel c of state and normaliser is kept in units of e^max_c,
// max_c being the largest log_k_c so far, so that exponents of any size
// survive. Then
//   sum_c q_c S_c / sum_c q_c Z_c
// is the ratio of the sums in common units: a query's own shift cancels.

// Takes one key: with max' = max(max, log_k), or log_k if `first`,
//   decay <- e^(max - max'), or 0 if `first`,   k <- e^(log_k - max'),
//   max <- max'.
// `decay` and `k` are what KeyDecayStep and NormalizerStep take. One of them is
// exactly 1 in every channel, save that decay is 0 for the first key. Within 3
// ulp + half an ulp per unit of the exponent.
//   log_k     f32[F]  in, finite     max  f32[F]  in/out, not read if first
//   decay, k  f32[F]  out; k may be log_k
void LogFeatureKey(size_t F, bool first, const float* log_k, float* max,
                   float* decay, float* k);

// Takes one query: q_c <- e^(x_c - max_c x_c), x = log_q + max in double.
// Within 3 ulp + half an ulp per unit of the exponent.
//   log_q, max  f32[F]  in, finite     q  f32[F]  out; may be log_q
// REQUIRES: F >= 1.
void LogFeatureQuery(size_t F, const float* log_q, const float* max, float* q);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_RECURRENCE_NORMALIZER_H_
