#include "kernels/chunk/scores.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/scores.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/block_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

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
  MultiplyBlocks({.m = L,
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
