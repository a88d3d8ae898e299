#ifndef STEADYSTATE_KERNELS_SAMPLING_SOFTMAX_H_
#define STEADYSTATE_KERNELS_SAMPLING_SOFTMAX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace steadystate {

// log(sum_i exp(x[i])), the maximum subtracted, the sum in double.
//   x  f32[n]  in.   REQUIRES: n >= 1, no NaN.
double LogSumExp(size_t n, const float* x);

// Index of the largest element; of equals the first.   REQUIRES: n >= 1, no
// NaN.
size_t ArgMax(size_t n, const float* x);

// Indices of the k largest elements, largest first; of equals the lower index
// first.   REQUIRES: 1 <= k <= n, no NaN.
//   out  resized to k
void TopK(size_t n, const float* x, size_t k, std::vector<int32_t>& out);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_SAMPLING_SOFTMAX_H_
