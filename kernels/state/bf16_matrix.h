#ifndef STEADYSTATE_KERNELS_STATE_BF16_MATRIX_H_
#define STEADYSTATE_KERNELS_STATE_BF16_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "kernels/state/rounding_noise.h"

namespace steadystate {

// A recurrent matrix kept in bf16: half the bytes, eight significant bits.
// Rounding is stochastic. To nearest, what a token adds would be lost wherever
// it is less than half a unit of the sum, and sums would stop growing; like
// this every addition counts in the mean, and the errors of T tokens add up to
// sqrt(T) of them instead of T.

//   from  bf16[n]  in      to  f32[n]  out
// Exact.
void UnpackBf16(size_t n, const uint16_t* from, float* to);

// Of the noise: those that bf16 cuts off.
inline constexpr int kBf16NoiseBits = 16;

//   from  f32[rows, columns]  in      to  bf16[rows, columns]  out
//   noise of kBf16NoiseBits   in
// What bf16 holds exactly stays; infinities stay, NaN stays not finite. All
// SIMD targets give the same bits.
void PackBf16(size_t rows, size_t columns, const float* from,
              const RoundingNoise& noise, uint16_t* to);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_STATE_BF16_MATRIX_H_
