#include "kernels/sampling/softmax.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sampling/softmax.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

float MaxOfTarget(size_t n, const float* x) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  auto largest = hn::Set(d, x[0]);
  size_t i = 0;
  for (; i + N <= n; i += N) largest = hn::Max(largest, hn::LoadU(d, x + i));
  // Not MaxOfLanes, which some targets start from the lowest finite number.
  HWY_ALIGN float lanes[hn::MaxLanes(decltype(d)())];
  hn::Store(largest, d, lanes);
  float result = *std::max_element(lanes, lanes + N);
  for (; i < n; ++i) result = std::max(result, x[i]);
  return result;
}

// sum_i e^(x[i] - max): f32 exponentials, summed in double.
double SumExpOfTarget(size_t n, const float* x, float max) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d;
  const size_t N = hn::Lanes(d);
  const auto shift = hn::Set(d, max);
  auto sum = hn::Zero(d64);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const auto term = BoundedExp(d, hn::Sub(hn::LoadU(d, x + i), shift));
    sum = hn::Add(sum, hn::PromoteTo(d64, term));
  }
  if (i < n) {
    const auto last = hn::Sub(LoadPartial(d, x + i, n - i), shift);
    const auto term =
        hn::IfThenElseZero(hn::FirstN(d, n - i), BoundedExp(d, last));
    sum = hn::Add(sum, hn::PromoteTo(d64, term));
  }
  return hn::GetLane(hn::SumOfLanes(d64, sum));
}

// The first index from `begin` on whose element exceeds `bound`, or n.
size_t FindGreaterOfTarget(size_t begin, size_t n, const float* x,
                           float bound) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  const auto bounds = hn::Set(d, bound);
  size_t i = begin;
  for (; i + N <= n; i += N) {
    if (!hn::AllFalse(d, hn::Gt(hn::LoadU(d, x + i), bounds))) break;
  }
  while (i < n && !(x[i] > bound)) ++i;
  return i;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(MaxOfTarget);
HWY_EXPORT(SumExpOfTarget);
HWY_EXPORT(FindGreaterOfTarget);

double LogSumExp(size_t n, const float* x) {
  const float max = HWY_DYNAMIC_DISPATCH(MaxOfTarget)(n, x);
  if (!std::isfinite(max)) return static_cast<double>(max);
  const double sum = HWY_DYNAMIC_DISPATCH(SumExpOfTarget)(n, x, max);
  return static_cast<double>(max) + std::log(sum);
}

size_t ArgMax(size_t n, const float* x) {
  const float max = HWY_DYNAMIC_DISPATCH(MaxOfTarget)(n, x);
  return static_cast<size_t>(std::find(x, x + n, max) - x);
}

void TopK(size_t n, const float* x, size_t k, std::vector<int32_t>& out) {
  const auto before = [x](int32_t a, int32_t b) {
    return x[a] > x[b] || (x[a] == x[b] && a < b);
  };
  out.resize(k);
  for (size_t i = 0; i < k; ++i) out[i] = static_cast<int32_t>(i);
  // A heap with the worst of the best k on top. What equals it comes later in
  // the array and loses, so only larger elements matter.
  std::make_heap(out.begin(), out.end(), before);
  for (size_t i = k; i < n; ++i) {
    i = HWY_DYNAMIC_DISPATCH(FindGreaterOfTarget)(i, n, x, x[out.front()]);
    if (i == n) break;
    std::pop_heap(out.begin(), out.end(), before);
    out.back() = static_cast<int32_t>(i);
    std::push_heap(out.begin(), out.end(), before);
  }
  std::sort_heap(out.begin(), out.end(), before);
}

}  // namespace steadystate
#endif  // HWY_ONCE
