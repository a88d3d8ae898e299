#ifndef STEADYSTATE_KERNELS_POINTWISE_SHORT_CONV_H_
#define STEADYSTATE_KERNELS_POINTWISE_SHORT_CONV_H_

#include <cstddef>

#include "kernels/pointwise/activation.h"

namespace steadystate {

// One token of a depthwise causal convolution with W taps over C channels:
//   y[c] = act(sum_w taps[w, c] * x_{t-W+1+w}[c] + bias[c]), past x = 0,
// the last tap multiplying the current token; then the window moves on.
//   taps    f32[W, C; stride]      in      (transposed from a checkpoint's
//                                          [C, 1, W])
//   bias    f32[C]                 in      or null
//   window  f32[W - 1, C; stride]  in/out  the last W - 1 inputs, oldest first
//   x       f32[C]                 in
//   y       f32[C]                 out     may be x
// REQUIRES: W >= 1; window overlaps nothing (it is unused when W = 1).
void ShortConvStep(size_t C, size_t stride, size_t W, const float* taps,
                   const float* bias, Activation act, float* window,
                   const float* x, float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_POINTWISE_SHORT_CONV_H_
