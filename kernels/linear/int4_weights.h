#ifndef STEADYSTATE_KERNELS_LINEAR_INT4_WEIGHTS_H_
#define STEADYSTATE_KERNELS_LINEAR_INT4_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/linear/int4_product.h"

namespace steadystate {

// Rounds one group of a panel's columns to 4 bits: w ~ d (q - 8), q from 0 to
// 15. Of 8 scales, at which the weight of largest magnitude is between -5.75
// and -8.5, each column takes the one whose whole numbers come nearest to the
// weights in the mean square; d is the best multiple of these, as bf16. d is
//   0 if no |w| reaches 1e-30;
//   NaN if any is infinite or NaN.
//   values   f32[kInt4Group, kInt4Panel]  in; becomes what is left, w - d q,
//            or zeros where that is not finite
//   weights  [kInt4PanelBytes]  out, as Int4Product has them
//   scales   bf16[kInt4Panel]   out
// All SIMD targets give the same bits. Thread-safe.
void RoundInt4Weights(float* values, uint8_t* weights, uint16_t* scales);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_INT4_WEIGHTS_H_
