#ifndef STEADYSTATE_KERNELS_POINTWISE_SHORT_CONV_H_
#define STEADYSTATE_KERNELS_POINTWISE_SHORT_CONV_H_

#include <cstddef>

#include "kernels/pointwise/activation.h"

namespace steadystate {

// A depthwise causal convolution over C channels. Rows of taps and of the
// window are `stride` floats apart, so that C may be some of the channels.
struct ShortConv {
  size_t C = 0;
  size_t stride = 0;
  size_t W = 1;                 // taps, >= 1
  const float* taps = nullptr;  // f32[W, C; stride], transposed from a
                                // checkpoint's [C, 1, W]
  const float* bias = nullptr;  // f32[C], or null
  Activation act = Activation::kIdentity;
};

// One token:
//   y[c] = act(sum_w taps[w, c] * x_{t-W+1+w}[c] + bias[c]), past x = 0,
// the last tap multiplying the current token; then the window moves on.
//   window  f32[W - 1, C; stride]  in/out  the last W - 1 inputs, oldest first
//   x       f32[C]                 in
//   y       f32[C]                 out     may be x
// REQUIRES: the window overlaps nothing (it is unused when W = 1).
void ShortConvStep(const ShortConv& conv, float* window, const float* x,
                   float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_SHORT_CONV_H_
