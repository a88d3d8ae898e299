#ifndef STEADYSTATE_KERNELS_STATE_ROUNDING_NOISE_H_
#define STEADYSTATE_KERNELS_STATE_ROUNDING_NOISE_H_

#include <cstddef>
#include <cstdint>

namespace steadystate {

// The random bits by which the elements of a matrix are rounded: those of
// element (i, j) are rows[i] ^ columns[j], uniform in [0, 2^bits). Any two
// elements' are independent, and so are the errors of their rounding: in every
// sum over elements they add up as if all were. One xor an element is all that
// this costs.
struct RoundingNoise {
  const uint32_t* rows = nullptr;     // u32[rows], each below 2^bits
  const uint32_t* columns = nullptr;  // u32[columns], each below 2^bits
};

// Which matrix is rounded, and when: no two roundings have the same.
struct RoundingPlace {
  uint64_t position = 0;  // tokens that the matrix has taken in
  uint64_t offset = 0;    // where it lies, in bytes from the session's start
};

// Fills the noise of a place, a hash of it and of the row or column: nothing
// else is remembered or drawn, so that equal histories are rounded equally.
// All SIMD targets give the same bits.
//   row_noise  u32[rows]  out     column_noise  u32[columns]  out
// REQUIRES: 1 <= bits <= 16.
RoundingNoise MakeRoundingNoise(RoundingPlace place, int bits, size_t rows,
                                size_t columns, uint32_t* row_noise,
                                uint32_t* column_noise);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_STATE_ROUNDING_NOISE_H_
