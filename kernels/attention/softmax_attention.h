#ifndef STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_
#define STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_

#include <cstddef>

namespace steadystate {

// The cached keys and values of one head, of n tokens.
struct KeyValueRows {
  size_t d = 0;                   // width of keys and values
  size_t n = 0;                   // rows, >= 1
  size_t stride = 0;              // floats from row to row
  const float* keys = nullptr;    // f32[n, d; stride]
  const float* values = nullptr;  // f32[n, d; stride]
};

// Softmax attention of one query over the cache of one head:
//   o = sum_j softmax_j(scale * q . k_j) v_j, with the maximum subtracted.
//   q  f32[d]  in     scores  f32[n]  scratch, overwritten     o  f32[d]  out
// The order of the cache rows is the order of the sums: a ring buffer gives
// the same bits only when read in the same order.
// REQUIRES: o and scores alias nothing.
void SoftmaxAttentionStep(const KeyValueRows& cache, float scale,
                          const float* q, float* scores, float* o);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_
