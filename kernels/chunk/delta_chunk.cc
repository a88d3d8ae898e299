#include "kernels/chunk/delta_chunk.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/delta_chunk.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/block_product-inl.h"
#include "kernels/chunk/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// u_i <- beta_i (v_i - D_i u_i), columns j and up.
template <class D>
HWY_INLINE void TakeFromValue(D d, const DeltaChunk& c, size_t i, size_t j) {
  float* at = c.u + i * c.V + j;
  const auto fade = hn::Set(d, c.fading.from_start[i]);
  const auto left =
      hn::NegMulAdd(fade, hn::LoadU(d, at), hn::LoadU(d, c.v.At(i) + j));
  hn::StoreU(hn::Mul(hn::Set(d, *c.beta.At(i)), left), d, at);
}

void SolveDeltaChunkOfTarget(const DeltaChunk& c) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  MultiplyBlocks({.m = c.L,
                  .n = c.V,
                  .k = c.K,
                  .a = c.k.data,
                  .a_row = c.k.stride,
                  .b = c.state,
                  .b_row = c.V,
                  .c = c.u,
                  .c_row = c.V});
  FadeScores(c.L, -1, c.fading, c.key_scores, c.weights);
  for (size_t i = 0; i < c.L; ++i) {
    size_t j = 0;
    for (; j + N <= c.V; j += N) TakeFromValue(d, c, i, j);
    for (; j < c.V; ++j) TakeFromValue(d1, c, i, j);
    float* row = c.weights + i * kChunkTokens;
    for (size_t x = 0; x < i; ++x) row[x] *= *c.beta.At(i);
  }
  // Four rows take from all before them at once, then from each other.
  const float one = 1;
  for (size_t i = 0; i < c.L; i += 4) {
    const size_t end = std::min(c.L, i + 4);
    const BlockProductArgs rows = {.m = end - i,
                                   .n = c.V,
                                   .k = i,
                                   .a = c.weights + i * kChunkTokens,
                                   .a_row = kChunkTokens,
                                   .b = c.u,
                                   .b_row = c.V,
                                   .c = c.u + i * c.V,
                                   .c_row = c.V,
                                   .keep = &one};
    if (i > 0) MultiplyBlocks(rows);
    for (size_t x = i + 1; x < end; ++x) {
      BlockProductArgs row = rows;
      row.m = 1;
      row.k = x - i;
      row.a = c.weights + x * kChunkTokens + i;
      row.b = c.u + i * c.V;
      row.c = c.u + x * c.V;
      MultiplyBlocks(row);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(SolveDeltaChunkOfTarget);

void SolveDeltaChunk(const DeltaChunk& args) {
  HWY_DYNAMIC_DISPATCH(SolveDeltaChunkOfTarget)(args);
}

}  // namespace steadystate
#endif  // HWY_ONCE
