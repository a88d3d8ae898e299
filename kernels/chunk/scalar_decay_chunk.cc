#include "kernels/chunk/scalar_decay_chunk.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/scalar_decay_chunk.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/block_product-inl.h"
#include "kernels/chunk/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void ReadScalarDecayChunkOfTarget(const ScalarDecayRead& r) {
  float* kept = r.weights + kChunkTokens * kChunkTokens;
  for (size_t i = 0; i < r.L; ++i) kept[i] = r.scale * r.fading.from_start[i];
  FadeScores(r.L, r.scale, r.fading, r.scores, r.weights);
  MultiplyBlocks({.m = r.L,
                  .n = r.V,
                  .k = r.K,
                  .a = r.q.data,
                  .a_row = r.q.stride,
                  .b = r.state,
                  .b_row = r.V,
                  .c = r.o,
                  .c_row = r.o_stride});
  MultiplyBlocks({.m = r.L,
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
  MultiplyBlocks({.m = u.K,
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
  MultiplyBlocks({.m = L,
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

}  // namespace steadystate
#endif  // HWY_ONCE
