#include "kernels/recurrence/normalizer.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/normalizer.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// z <- decay o z + k of the channels i and up, as many as fit.
template <class D64, class D32>
HWY_INLINE void AdvanceVector(D64 d64, D32 d, Decays decay, const float* k,
                              size_t i, double* z) {
  const auto added = hn::PromoteTo(d64, hn::LoadU(d, k + i));
  const auto kept = hn::LoadU(d64, z + i);
  auto sum = hn::Add(kept, added);
  if (decay.high != nullptr) {
    auto factor = hn::PromoteTo(d64, hn::LoadU(d, decay.high + i));
    if (decay.low != nullptr) {
      const auto low = hn::PromoteTo(d64, hn::LoadU(d, decay.low + i));
      factor = hn::Add(factor, low);
    }
    sum = hn::MulAdd(factor, kept, added);
  }
  hn::StoreU(sum, d64, z + i);
}

void AdvanceNormalizerOfTarget(size_t K, Decays decay, const float* k,
                               double* z) {
  const hn::ScalableTag<double> d64;
  const hn::CappedTag<double, 1> d64_1;
  const hn::Rebind<float, decltype(d64)> d;
  const hn::Rebind<float, decltype(d64_1)> d1;
  const size_t N = hn::Lanes(d64);
  size_t i = 0;
  for (; i + N <= K; i += N) AdvanceVector(d64, d, decay, k, i, z);
  for (; i < K; ++i) AdvanceVector(d64_1, d1, decay, k, i, z);
}

double NormalizerReadOfTarget(size_t K, const float* q, const double* z) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d;
  const size_t N = hn::Lanes(d64);
  auto sums = hn::Zero(d64);
  size_t i = 0;
  for (; i + N <= K; i += N) {
    const auto q_i = hn::PromoteTo(d64, hn::LoadU(d, q + i));
    sums = hn::MulAdd(q_i, hn::LoadU(d64, z + i), sums);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d64, sums));
  for (; i < K; ++i) sum += static_cast<double>(q[i]) * z[i];
  return sum;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(AdvanceNormalizerOfTarget);
HWY_EXPORT(NormalizerReadOfTarget);

double NormalizerStep(size_t K, Decays decay, const float* q, const float* k,
                      double* z) {
  HWY_DYNAMIC_DISPATCH(AdvanceNormalizerOfTarget)(K, decay, k, z);
  return NormalizerRead(K, q, z);
}

double NormalizerRead(size_t K, const float* q, const double* z) {
  return HWY_DYNAMIC_DISPATCH(NormalizerReadOfTarget)(K, q, z);
}

}  // namespace steadystate
#endif  // HWY_ONCE
