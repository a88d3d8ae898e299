// What the chunk kernels do to small tables between their products. Include
// after foreach_target.h.

#if defined(STEADYSTATE_KERNELS_CHUNK_WEIGHTS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_CHUNK_WEIGHTS_INL_H_
#undef STEADYSTATE_KERNELS_CHUNK_WEIGHTS_INL_H_
#else
#define STEADYSTATE_KERNELS_CHUNK_WEIGHTS_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "kernels/chunk/chunk_rows.h"
#include "kernels/chunk/fading.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// weights[i, j] <- factor M_ij scores[i, j] for j <= i, and 0 behind, as far as
// a block product with lower_a looks.
//   scores, weights  f32[L, kChunkTokens]
HWY_INLINE void FadeScores(size_t L, float factor, const Fading& fading,
                           const float* scores, float* weights) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  const auto scale = hn::Set(d, factor);
  const float* between = fading.between;
  for (size_t i = 0; i < L; ++i, between += fading.between_stride) {
    const float* from = scores + i * kChunkTokens;
    float* to = weights + i * kChunkTokens;
    const size_t end = i / 4 * 4 + 4;
    for (size_t j = 0; j < end; j += N) {
      const auto faded =
          hn::Mul(hn::LoadU(d, between + j), hn::LoadU(d, from + j));
      const auto seen = hn::FirstN(d, j <= i ? i - j + 1 : 0);
      hn::StoreU(hn::IfThenElseZero(seen, hn::Mul(scale, faded)), d, to + j);
    }
  }
}

// to_t <- factors[t] rows_t.
//   rows  f32[L, width; its stride]   to  f32[L, width]
HWY_INLINE void ScaleRows(size_t L, size_t width, const float* factors,
                          ChunkRows rows, float* to) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  for (size_t t = 0; t < L; ++t) {
    const float* from = rows.At(t);
    float* row = to + t * width;
    const auto factor = hn::Set(d, factors[t]);
    size_t j = 0;
    for (; j + N <= width; j += N) {
      hn::StoreU(hn::Mul(factor, hn::LoadU(d, from + j)), d, row + j);
    }
    for (; j < width; ++j) row[j] = factors[t] * from[j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_CHUNK_WEIGHTS_INL_H_
