#ifndef STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_
#define STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_

#include <cstddef>

namespace steadystate {

// Softmax attention of one query over n cached keys and values of one head:
//   o = sum_j softmax_j(scale * q . k_j) v_j, with the maximum subtracted.
//   q       f32[d]                 in
//   keys    f32[n, d; stride]      in    values  f32[n, d; stride]  in
//   scores  f32[n]                 scratch, overwritten
//   o       f32[d]                 out
// The order of the cache rows is the order of the sums: a ring buffer gives
// the same bits only when read in the same order.
// REQUIRES: n >= 1; o and scores alias nothing.
void SoftmaxAttentionStep(size_t d, size_t n, size_t stride, float scale,
                          const float* q, const float* keys,
                          const float* values, float* scores, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_
