#ifndef STEADYSTATE_KERNELS_CHUNK_FADING_H_
#define STEADYSTATE_KERNELS_CHUNK_FADING_H_

#include <cstddef>

#include "kernels/chunk/chunk_rows.h"

namespace steadystate {

// What the decays of a chunk of L tokens, one factor each, come to between any
// two of them. Products of the factors, in their order, and never quotients:
// whatever the factors, none is larger than 1 that the formula has smaller, a
// factor of 0 forgets all and ones forget nothing.
struct Fading {
  const float* from_start = nullptr;  // f32[L]: of tokens 0 to i
  float all_low = 0;                  // what from_start[L - 1] lacks
  const float* to_end = nullptr;      // f32[L]: of tokens j + 1 to L - 1
  // Row i, at between + i between_stride: of tokens j + 1 to i, for j <= i. Up
  // to kChunkTokens elements of a row may be read.
  const float* between = nullptr;
  ptrdiff_t between_stride = 0;
};

// Floats that ChunkFading fills.
inline constexpr size_t kFadingFloats =
    kChunkTokens * kChunkTokens + 2 * kChunkTokens;

// The fading of a chunk. Decays may be sums of two floats, as SplitDecay gives
// them: the fading from the start, which is applied chunk after chunk, is of
// the sums, and that of all tokens is itself such a sum.
//   alpha      f32[L; its stride]   in, in [0, 1]
//   alpha_low  f32[L; its stride]   in, or none
//   table      f32[kFadingFloats]   out; what is returned points into it
// REQUIRES: 1 <= L <= kChunkTokens.
Fading ChunkFading(size_t L, ChunkRows alpha, ChunkRows alpha_low,
                   float* table);

// Floats of a table of powers.
inline constexpr size_t kPowerFloats = 4 * kChunkTokens + 2;

// Of a constant factor, in [0, 1]: its powers, from which FadingOfPowers makes
// the fading of chunks of any length.
//   powers  f32[kPowerFloats]  out
void FillPowers(double factor, float* powers);
Fading FadingOfPowers(size_t L, const float* powers);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_FADING_H_
