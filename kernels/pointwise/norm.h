#ifndef STEADYSTATE_KERNELS_POINTWISE_NORM_H_
#define STEADYSTATE_KERNELS_POINTWISE_NORM_H_

#include <cstddef>

namespace steadystate {

// y = x (mean(x^2) + eps)^-1/2 * weight.
//   x  f32[n] in, weight  f32[n] in or null for ones, y  f32[n] out; y may be
//   x.
void RmsNorm(size_t n, const float* x, const float* weight, float eps,
             float* y);

// y = (x - mean(x)) (variance(x) + eps)^-1/2 * weight + bias, the population's
// variance.
//   x  f32[n] in, weight, bias  f32[n] in or null for ones and zeros,
//   y  f32[n] out; y may be x.
void LayerNorm(size_t n, const float* x, const float* weight, const float* bias,
               float eps, float* y);

// y = x / sqrt(sum x^2 + eps), eps under the root.
//   x  f32[n] in, y  f32[n] out; y may be x.
void L2Normalize(size_t n, const float* x, float eps, float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_NORM_H_
