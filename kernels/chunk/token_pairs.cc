#include "kernels/chunk/token_pairs.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/token_pairs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/matrix_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Row i is row i - 1 once more faded, and a one for the token itself.
void FadeBetweenOfTarget(size_t L, const float* alpha, size_t stride,
                         float* between) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  between[0] = 1;
  for (size_t i = 1; i < L; ++i) {
    const float* before = between + (i - 1) * kChunkTokens;
    float* row = between + i * kChunkTokens;
    const auto factor = hn::Set(d, alpha[i * stride]);
    for (size_t j = 0; j < i; j += N) {
      hn::StoreU(hn::Mul(factor, hn::LoadU(d, before + j)), d, row + j);
    }
    row[i] = 1;
  }
}

// Channels c and up, as many as fit, of four tokens; returns the first channel
// that is left.
HWY_INLINE size_t TransposeFour(size_t K, ChunkRows rows, size_t t,
                                float* keys) {
  size_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  for (; c + 4 <= K; c += 4) {
    const auto r0 = hn::LoadU(d, rows.At(t) + c);
    const auto r1 = hn::LoadU(d, rows.At(t + 1) + c);
    const auto r2 = hn::LoadU(d, rows.At(t + 2) + c);
    const auto r3 = hn::LoadU(d, rows.At(t + 3) + c);
    const auto low02 = hn::InterleaveLower(d, r0, r2);
    const auto low13 = hn::InterleaveLower(d, r1, r3);
    const auto high02 = hn::InterleaveUpper(d, r0, r2);
    const auto high13 = hn::InterleaveUpper(d, r1, r3);
    float* to = keys + c * kChunkTokens + t;
    hn::StoreU(hn::InterleaveLower(d, low02, low13), d, to);
    hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, to + kChunkTokens);
    hn::StoreU(hn::InterleaveLower(d, high02, high13), d,
               to + 2 * kChunkTokens);
    hn::StoreU(hn::InterleaveUpper(d, high02, high13), d,
               to + 3 * kChunkTokens);
  }
#else
  (void)K, (void)rows, (void)t, (void)keys;
#endif
  return c;
}

void TransposeKeysOfTarget(size_t L, size_t K, const float* rows, size_t stride,
                           float* keys) {
  const ChunkRows from = {rows, stride};
  size_t t = 0;
  for (; t + 4 <= L; t += 4) {
    for (size_t c = TransposeFour(K, from, t, keys); c < K; ++c) {
      for (size_t i = t; i < t + 4; ++i) {
        keys[c * kChunkTokens + i] = from.At(i)[c];
      }
    }
  }
  for (; t < L; ++t) {
    for (size_t c = 0; c < K; ++c) keys[c * kChunkTokens + t] = from.At(t)[c];
  }
}

void ChunkScoresOfTarget(size_t L, size_t K, const float* q, size_t stride,
                         const float* keys, float* scores) {
  // Whole vectors: what is beyond column L is computed and not used.
  const size_t N = hn::Lanes(hn::ScalableTag<float>());
  MultiplyMatrices({.m = L,
                    .n = std::min(kChunkTokens, (L + N - 1) / N * N),
                    .k = K,
                    .a = q,
                    .a_row = stride,
                    .b = keys,
                    .b_row = kChunkTokens,
                    .c = scores,
                    .c_row = kChunkTokens,
                    .lower_c = true});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(FadeBetweenOfTarget);

namespace {

// What the float nearest to a number lacks of it.
float LackOf(double exact) {
  const double nearest = static_cast<double>(static_cast<float>(exact));
  return static_cast<float>(exact - nearest);
}

}  // namespace

Fading ChunkFading(size_t L, ChunkRows alpha, ChunkRows alpha_low,
                   float* table) {
  float* between = table;
  float* from_start = table + kChunkTokens * kChunkTokens;
  HWY_DYNAMIC_DISPATCH(FadeBetweenOfTarget)
  (L, alpha.data, alpha.stride, between);
  double product = 1;
  for (size_t i = 0; i < L; ++i) {
    double factor = static_cast<double>(*alpha.At(i));
    if (alpha_low.data != nullptr) {
      factor += static_cast<double>(*alpha_low.At(i));
    }
    product *= factor;
    from_start[i] = static_cast<float>(product);
  }
  return {.from_start = from_start,
          .all_low = LackOf(product),
          .to_end = between + (L - 1) * kChunkTokens,
          .between = between,
          .between_stride = kChunkTokens};
}

// Powers descending to 1, with a row's length of zeros behind, so that a row of
// the table between tokens starts where its length says; then ascending ones,
// and what those lack.
void FillPowers(double factor, float* powers) {
  float* descending = powers;
  float* ascending = powers + 2 * kChunkTokens;
  float* lacking = ascending + kChunkTokens + 1;
  std::fill_n(descending, 2 * kChunkTokens, 0.0f);
  double power = 1;
  for (size_t n = 0; n <= kChunkTokens; ++n, power *= factor) {
    ascending[n] = static_cast<float>(power);
    lacking[n] = LackOf(power);
    if (n < kChunkTokens) {
      descending[kChunkTokens - 1 - n] = static_cast<float>(power);
    }
  }
}

Fading FadingOfPowers(size_t L, const float* powers) {
  const float* row_0 = powers + kChunkTokens - 1;
  const float* ascending = powers + 2 * kChunkTokens;
  const float* lacking = ascending + kChunkTokens + 1;
  return {.from_start = ascending + 1,
          .all_low = lacking[L],
          .to_end = row_0 - (L - 1),
          .between = row_0,
          .between_stride = -1};
}

HWY_EXPORT(TransposeKeysOfTarget);
HWY_EXPORT(ChunkScoresOfTarget);

void TransposeKeys(size_t L, size_t K, ChunkRows rows, float* keys) {
  HWY_DYNAMIC_DISPATCH(TransposeKeysOfTarget)
  (L, K, rows.data, rows.stride, keys);
}

void ChunkScores(size_t L, size_t K, ChunkRows q, const float* keys,
                 float* scores) {
  HWY_DYNAMIC_DISPATCH(ChunkScoresOfTarget)
  (L, K, q.data, q.stride, keys, scores);
}

}  // namespace steadystate
#endif  // HWY_ONCE
