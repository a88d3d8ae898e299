#ifndef STEADYSTATE_KERNELS_LINEAR_QUANTIZE_H_
#define STEADYSTATE_KERNELS_LINEAR_QUANTIZE_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// How a row of numbers becomes a row of bytes: the largest magnitude is
// `limit`, and 0 is stored as `zero`.
struct ByteRange {
  int limit = 127;  // 1 to 127
  int zero = 0;     // 0: signed bytes; above `limit`: unsigned ones
};

// Rounds x / s to the nearest whole numbers, ties to even, and adds zero, where
// the row's scale s is max |x| / limit. Returns s:
//   0 if no |x| reaches 1e-30: all bytes are `zero`, as of a row of zeros;
//   NaN if any x is infinite or NaN: likewise, and what is multiplied by s is
//   as little finite as the row.
//   x  f32[n] in      to  bytes[n] out
// All SIMD targets give the same bits.
float QuantizeRow(size_t n, const float* x, ByteRange range, uint8_t* to);

// y = (sums - offsets) (row_scale scales) + bias.
//   sums, offsets  s32[n] in, offsets or null for zeros      scales  f32[n] in
//   bias  f32[n] in or null for zeros      y  f32[n] out
// REQUIRES: sums - offsets does not overflow.
void DequantizeRow(size_t n, const int32_t* sums, const int32_t* offsets,
                   float row_scale, const float* scales, const float* bias,
                   float* y);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_QUANTIZE_H_
