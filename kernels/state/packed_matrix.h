#ifndef STEADYSTATE_KERNELS_STATE_PACKED_MATRIX_H_
#define STEADYSTATE_KERNELS_STATE_PACKED_MATRIX_H_

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

// A recurrent matrix kept in 16-bit integers: groups of up to 64 columns of a
// row have a unit in common, the power of two that makes the largest of them
// 2^14 or more. Next to bf16 that is a byte more for 64 elements and six to
// seven bits more for the large ones, which are what a sum over elements is
// made of. Rounding is stochastic, for the reason given in UnpackBf16.

inline constexpr size_t kInt16GroupColumns = 64;

// Of the noise. What is less than their last place is rounded to nearest; it is
// 2^-22 of a group's largest element.
inline constexpr int kInt16NoiseBits = 7;

// Groups of a row.
constexpr size_t Int16Groups(size_t columns) {
  return (columns + kInt16GroupColumns - 1) / kInt16GroupColumns;
}

//   from       s16[rows, columns]               in
//   exponents  u8[rows, Int16Groups(columns)]   in   of the units, as a float
//                                                    has them; 0: a group of
//                                                    zeros, whatever `from` is
//   to         f32[rows, columns]               out
// Exact. A group with an exponent of 255 gives nothing finite.
void UnpackInt16(size_t rows, size_t columns, const int16_t* from,
                 const uint8_t* exponents, float* to);

//   from       f32[rows, columns]               in
//   noise      of kInt16NoiseBits               in
//   to         s16[rows, columns]               out
//   exponents  u8[rows, Int16Groups(columns)]   out
// What is a whole number of units stays; a group whose largest element is below
// 2^-97 becomes zeros, one that has an element that is not finite or above
// 1.99 x 2^127 becomes not finite as a whole. All SIMD targets give the same
// bits for what is finite.
void PackInt16(size_t rows, size_t columns, const float* from,
               const RoundingNoise& noise, int16_t* to, uint8_t* exponents);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_STATE_PACKED_MATRIX_H_
