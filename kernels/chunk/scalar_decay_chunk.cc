#include "kernels/chunk/scalar_decay_chunk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/scalar_decay_chunk.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/forward_substitution-inl.h"
#include "kernels/chunk/matrix_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// weights[i, j] <- factor M_ij scores[i, j] for j <= i, and 0 behind, as far as
// a matrix product with lower_a looks.
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

void ReadScalarDecayChunkOfTarget(const ScalarDecayRead& r) {
  float* kept = r.weights + kChunkTokens * kChunkTokens;
  for (size_t i = 0; i < r.L; ++i) kept[i] = r.scale * r.fading.from_start[i];
  FadeScores(r.L, r.scale, r.fading, r.scores, r.weights);
  MultiplyMatrices({.m = r.L,
                    .n = r.V,
                    .k = r.K,
                    .a = r.q.data,
                    .a_row = r.q.stride,
                    .b = r.state,
                    .b_row = r.V,
                    .c = r.o,
                    .c_row = r.o_stride});
  MultiplyMatrices({.m = r.L,
                    .n = r.V,
                    .k = r.L,
                    .a = r.weights,
                    .a_row = kChunkTokens,
                    .b = r.v.data,
                    .b_row = r.v.stride,
                    .c = r.o,
                    .c_row = r.o_stride,
                    .keep = kept,
                    .keep_step = 1,
                    .lower_a = true});
}

void UpdateScalarDecayChunkOfTarget(const ScalarDecayUpdate& u) {
  ScaleRows(u.L, u.V, u.fading.to_end, u.v, u.faded);
  MultiplyMatrices({.m = u.K,
                    .n = u.V,
                    .k = u.L,
                    .a = u.k.data,
                    .a_row = 1,
                    .a_col = u.k.stride,
                    .b = u.faded,
                    .b_row = u.V,
                    .c = u.state,
                    .c_row = u.V,
                    .keep = u.fresh ? nullptr : u.fading.from_start + (u.L - 1),
                    .keep_low = &u.fading.all_low});
}

void ReadChunkOfTarget(size_t L, size_t K, size_t V, float scale,
                       const float* q, size_t q_stride, const float* state,
                       float* o, size_t o_stride) {
  MultiplyMatrices({.m = L,
                    .n = V,
                    .k = K,
                    .a = q,
                    .a_row = q_stride,
                    .b = state,
                    .b_row = V,
                    .c = o,
                    .c_row = o_stride});
  for (size_t i = 0; i < L; ++i) {
    for (size_t j = 0; j < V; ++j) o[i * o_stride + j] *= scale;
  }
}

void SolveDeltaChunkOfTarget(const DeltaChunk& c) {
  MultiplyMatrices({.m = c.L,
                    .n = c.V,
                    .k = c.K,
                    .a = c.k.data,
                    .a_row = c.k.stride,
                    .b = c.state,
                    .b_row = c.V,
                    .c = c.u,
                    .c_row = c.V});
  FadeScores(c.L, 1, c.fading, c.key_scores, c.weights);
  SolveDeltaSystem({.L = c.L,
                    .V = c.V,
                    .fade = c.fading.from_start,
                    .v = c.v,
                    .beta = c.beta,
                    .weights = c.weights,
                    .row = kChunkTokens,
                    .u = c.u});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ReadScalarDecayChunkOfTarget);
HWY_EXPORT(UpdateScalarDecayChunkOfTarget);
HWY_EXPORT(ReadChunkOfTarget);

void ReadScalarDecayChunk(const ScalarDecayRead& args) {
  HWY_DYNAMIC_DISPATCH(ReadScalarDecayChunkOfTarget)(args);
}

void UpdateScalarDecayChunk(const ScalarDecayUpdate& args) {
  HWY_DYNAMIC_DISPATCH(UpdateScalarDecayChunkOfTarget)(args);
}

void ReadChunk(size_t L, size_t K, size_t V, float scale, ChunkRows q,
               const float* state, float* o, size_t o_stride) {
  HWY_DYNAMIC_DISPATCH(ReadChunkOfTarget)
  (L, K, V, scale, q.data, q.stride, state, o, o_stride);
}

HWY_EXPORT(SolveDeltaChunkOfTarget);

void SolveDeltaChunk(const DeltaChunk& args) {
  HWY_DYNAMIC_DISPATCH(SolveDeltaChunkOfTarget)(args);
}

}  // namespace steadystate
#endif  // HWY_ONCE
