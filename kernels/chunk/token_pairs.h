#ifndef STEADYSTATE_KERNELS_CHUNK_TOKEN_PAIRS_H_
#define STEADYSTATE_KERNELS_CHUNK_TOKEN_PAIRS_H_

#include <algorithm>
#include <cstddef>

namespace steadystate {

// Tokens that a chunk has at most. Tables between two tokens of a chunk have
// rows this far apart, so that vectors may run over a row's end. What tokens of
// a chunk have with each other grows with its length, what they have with the
// state is done as well by 32 as by 64.
inline constexpr size_t kChunkTokens = 32;

// With fewer tokens steps are as fast.
inline constexpr size_t kFewestChunkTokens = 4;

// A vector for each token of a chunk, where it lies.
struct ChunkRows {
  const float* data = nullptr;
  size_t stride = 0;

  const float* At(size_t t) const { return data + t * stride; }
};

// The rows' first `width` elements side by side, f32[L, width]: rows a power of
// two apart would meet in the same few lines of the cache.
inline ChunkRows PackRows(size_t L, size_t width, ChunkRows rows, float* to) {
  for (size_t t = 0; t < L; ++t) std::copy_n(rows.At(t), width, to + t * width);
  return {to, width};
}

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

// How much each token of a chunk sees of each one before it, decays aside. What
// heads have in common (Mamba-2's keys and queries) is computed once for all.

// The keys of a chunk of L tokens, transposed.
//   rows  f32[L, K; its stride]  in
//   keys  f32[K, kChunkTokens]   out; columns from L on are unspecified
// REQUIRES: 1 <= L <= kChunkTokens, K >= 1; no aliasing.
void TransposeKeys(size_t L, size_t K, ChunkRows rows, float* keys);

// scores[i, j] <- q_i . k_j for j <= i; the rest is unspecified.
//   q       f32[L, K; its stride]  in
//   keys    as TransposeKeys leaves them
//   scores  f32[L, kChunkTokens]   out
void ChunkScores(size_t L, size_t K, ChunkRows q, const float* keys,
                 float* scores);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_CHUNK_TOKEN_PAIRS_H_
