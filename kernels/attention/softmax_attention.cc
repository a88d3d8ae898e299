#include "kernels/attention/softmax_attention.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/softmax_attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct ExpMinusOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return BoundedExp(d, hn::Sub(x, hn::Set(d, max)));
  }
  float max;
};

// sum_j weights[j], in an order that depends on n only.
HWY_INLINE float Sum(size_t n, const float* weights) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t j = 0;
  for (; j + N <= n; j += N) sum = hn::Add(sum, hn::LoadU(d, weights + j));
  if (j < n) sum = hn::Add(sum, LoadPartial(d, weights + j, n - j));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The cached values, from the first column of interest on, and their weights.
struct Values {
  size_t n;
  size_t stride;
  const float* rows;
  const float* weights;
  float factor;  // of the whole sum
};

// Two vectors of output columns, in registers over the loop on cache rows.
template <class D>
HWY_INLINE void TwoVectors(D d, const Values& values, size_t c, float* o) {
  const size_t N = hn::Lanes(d);
  auto o0 = hn::Zero(d);
  auto o1 = hn::Zero(d);
  const float* row = values.rows + c;
  for (size_t j = 0; j < values.n; ++j, row += values.stride) {
    const auto weight = hn::Set(d, values.weights[j]);
    o0 = hn::MulAdd(weight, hn::LoadU(d, row), o0);
    o1 = hn::MulAdd(weight, hn::LoadU(d, row + N), o1);
  }
  const auto factor = hn::Set(d, values.factor);
  hn::StoreU(hn::Mul(factor, o0), d, o + c);
  hn::StoreU(hn::Mul(factor, o1), d, o + c + N);
}

template <class D>
HWY_INLINE void OneVector(D d, const Values& values, size_t c, float* o) {
  auto o0 = hn::Zero(d);
  const float* row = values.rows + c;
  for (size_t j = 0; j < values.n; ++j, row += values.stride) {
    const auto weight = hn::Set(d, values.weights[j]);
    o0 = hn::MulAdd(weight, hn::LoadU(d, row), o0);
  }
  hn::StoreU(hn::Mul(hn::Set(d, values.factor), o0), d, o + c);
}

HWY_INLINE void WeightedSum(size_t columns, const Values& values, float* o) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  size_t c = 0;
  for (; c + 2 * N <= columns; c += 2 * N) TwoVectors(d, values, c, o);
  for (; c + N <= columns; c += N) OneVector(d, values, c, o);
  for (; c + N4 <= columns; c += N4) OneVector(d4, values, c, o);
  for (; c < columns; ++c) OneVector(d1, values, c, o);
}

void SoftmaxAttentionOfTarget(const KeyValueRows& cache, float scale,
                              const float* q, float* scores, float* o) {
  const size_t n = cache.n;
  for (size_t j = 0; j < n; ++j) {
    scores[j] = scale * Dot(cache.d, q, cache.keys + j * cache.stride);
  }
  const float max = *std::max_element(scores, scores + n);
  Map(ExpMinusOp{max}, n, scores, scores);
  const float sum = Sum(n, scores);
  WeightedSum(cache.d, {n, cache.stride, cache.values, scores, 1.0f / sum}, o);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(SoftmaxAttentionOfTarget);

void SoftmaxAttentionStep(const KeyValueRows& cache, float scale,
                          const float* q, float* scores, float* o) {
  HWY_DYNAMIC_DISPATCH(SoftmaxAttentionOfTarget)(cache, scale, q, scores, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
