#ifndef STEADYSTATE_KERNELS_STATE_INT16_MATRIX_H_
#define STEADYSTATE_KERNELS_STATE_INT16_MATRIX_H_

#include <cstddef>
#include <cstdint>

#include "kernels/state/rounding_noise.h"

namespace steadystate {

// A recurrent matrix kept in 16-bit integers: blocks of up to 64 columns of a
// row have a unit in common, the power of two that makes the largest of them
// 2^14 or more. Next to bf16 that is a byte more for 64 elements and six to
// seven bits more for the large ones, which are what a sum over elements is
// made of. Rounding is stochastic, for the reason given in bf16_matrix.h.

inline constexpr size_t kInt16BlockColumns = 64;

// Of the noise. What is less than their last place is rounded to nearest; it is
// 2^-22 of a block's largest element.
inline constexpr int kInt16NoiseBits = 7;

// Blocks of a row.
constexpr size_t Int16Blocks(size_t columns) {
  return (columns + kInt16BlockColumns - 1) / kInt16BlockColumns;
}

//   from       s16[rows, columns]               in
//   exponents  u8[rows, Int16Blocks(columns)]   in   of the units, as a float
//                                                    has them; 0: a block of
//                                                    zeros, whatever `from` is
//   to         f32[rows, columns]               out
// Exact. A block with an exponent of 255 gives nothing finite.
void UnpackInt16(size_t rows, size_t columns, const int16_t* from,
                 const uint8_t* exponents, float* to);

//   from       f32[rows, columns]               in
//   noise      of kInt16NoiseBits               in
//   to         s16[rows, columns]               out
//   exponents  u8[rows, Int16Blocks(columns)]   out
// What is a whole number of units stays; a block whose largest element is below
// 2^-97 becomes zeros, one that has an element that is not finite or above
// 1.99 x 2^127 becomes not finite as a whole. All SIMD targets give the same
// bits for what is finite.
void PackInt16(size_t rows, size_t columns, const float* from,
               const RoundingNoise& noise, int16_t* to, uint8_t* exponents);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_STATE_INT16_MATRIX_H_
