#include "kernels/recurrence/normalizer.h"

#include <algorithm>

#include "kernels/pointwise/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/normalizer.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Some channels' factors, exactly, one of the two parts.
template <class D64, class D32>
HWY_INLINE hn::Vec<D64> PartOfFactors(D64 d64, D32 d, const float* parts,
                                      size_t stride, size_t i) {
  if (stride == 0) return hn::Set(d64, static_cast<double>(*parts));
  return hn::PromoteTo(d64, hn::LoadU(d, parts + i));
}

// z <- decay o z + k of the channels i and up, as many as fit.
template <class D64, class D32>
HWY_INLINE void AdvanceVector(D64 d64, D32 d, const Decays& decay,
                              const float* k, size_t i, double* z) {
  const auto added = hn::PromoteTo(d64, hn::LoadU(d, k + i));
  const auto kept = hn::LoadU(d64, z + i);
  auto sum = hn::Add(kept, added);
  if (decay.high != nullptr) {
    auto factor = PartOfFactors(d64, d, decay.high, decay.stride, i);
    if (decay.low != nullptr) {
      factor =
          hn::Add(factor, PartOfFactors(d64, d, decay.low, decay.stride, i));
    }
    sum = hn::MulAdd(factor, kept, added);
  }
  hn::StoreU(sum, d64, z + i);
}

void AdvanceNormalizerOfTarget(size_t K, const Decays& decay, const float* k,
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

double NormalizerStep(size_t K, const Decays& decay, const float* q,
                      const float* k, double* z) {
  HWY_DYNAMIC_DISPATCH(AdvanceNormalizerOfTarget)(K, decay, k, z);
  return NormalizerRead(K, q, z);
}

double NormalizerRead(size_t K, const float* q, const double* z) {
  return HWY_DYNAMIC_DISPATCH(NormalizerReadOfTarget)(K, q, z);
}

void LogFeatureKey(size_t F, bool first, const float* log_k, float* max,
                   float* decay, float* k) {
  for (size_t c = 0; c < F; ++c) {
    const float old_max = first ? log_k[c] : max[c];
    const float new_max = std::max(old_max, log_k[c]);
    decay[c] = old_max - new_max;
    k[c] = log_k[c] - new_max;
    max[c] = new_max;
  }
  Activate(Activation::kExp, F, decay, decay);
  Activate(Activation::kExp, F, k, k);
  if (first) std::fill(decay, decay + F, 0.0f);
}

void LogFeatureQuery(size_t F, const float* log_q, const float* max, float* q) {
  const auto exponent = [log_q, max](size_t c) {
    return static_cast<double>(log_q[c]) + static_cast<double>(max[c]);
  };
  double largest = exponent(0);
  for (size_t c = 1; c < F; ++c) largest = std::max(largest, exponent(c));
  for (size_t c = 0; c < F; ++c) {
    q[c] = static_cast<float>(exponent(c) - largest);
  }
  Activate(Activation::kExp, F, q, q);
}

}  // namespace steadystate
#endif  // HWY_ONCE
