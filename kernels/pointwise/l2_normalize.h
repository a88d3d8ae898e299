#ifndef STEADYSTATE_KERNELS_POINTWISE_L2_NORMALIZE_H_
#define STEADYSTATE_KERNELS_POINTWISE_L2_NORMALIZE_H_

#include <cstddef>

namespace steadystate {

// y = x / sqrt(sum x^2 + eps), eps under the root.
//   x  f32[n] in, y  f32[n] out; y may be x.
void L2Normalize(size_t n, const float* x, float eps, float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_L2_NORMALIZE_H_
