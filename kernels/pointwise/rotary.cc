#include "kernels/pointwise/rotary.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/rotary.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE void RotateVector(D d, const float* cos, const float* sin, float* x1,
                             float* x2) {
  const auto c = hn::LoadU(d, cos);
  const auto s = hn::LoadU(d, sin);
  const auto v1 = hn::LoadU(d, x1);
  const auto v2 = hn::LoadU(d, x2);
  hn::StoreU(hn::NegMulAdd(v2, s, hn::Mul(v1, c)), d, x1);
  hn::StoreU(hn::MulAdd(v1, s, hn::Mul(v2, c)), d, x2);
}

void ApplyRotaryOfTarget(size_t d, const float* cos, const float* sin,
                         float* x) {
  const hn::ScalableTag<float> tag;
  const hn::CappedTag<float, 1> tag1;
  const size_t N = hn::Lanes(tag);
  const size_t half = d / 2;
  size_t i = 0;
  for (; i + N <= half; i += N) {
    RotateVector(tag, cos + i, sin + i, x + i, x + half + i);
  }
  for (; i < half; ++i) {
    RotateVector(tag1, cos + i, sin + i, x + i, x + half + i);
  }
}

template <class D>
HWY_INLINE void RotatePairs(D d, const float* cos, const float* sin, float* x) {
  const auto c = hn::LoadU(d, cos);
  const auto s = hn::LoadU(d, sin);
  hn::Vec<D> v1;
  hn::Vec<D> v2;
  hn::LoadInterleaved2(d, x, v1, v2);
  hn::StoreInterleaved2(hn::NegMulAdd(v2, s, hn::Mul(v1, c)),
                        hn::MulAdd(v1, s, hn::Mul(v2, c)), d, x);
}

void ApplyRotaryInterleavedOfTarget(size_t d, const float* cos,
                                    const float* sin, float* x) {
  const hn::ScalableTag<float> tag;
  const hn::CappedTag<float, 1> tag1;
  const size_t N = hn::Lanes(tag);
  const size_t half = d / 2;
  size_t i = 0;
  for (; i + N <= half; i += N) RotatePairs(tag, cos + i, sin + i, x + 2 * i);
  for (; i < half; ++i) RotatePairs(tag1, cos + i, sin + i, x + 2 * i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ApplyRotaryOfTarget);
HWY_EXPORT(ApplyRotaryInterleavedOfTarget);

void RotaryFrequencies(size_t d, double base, double* frequencies) {
  for (size_t i = 0; i < d / 2; ++i) {
    const double exponent =
        -2.0 * static_cast<double>(i) / static_cast<double>(d);
    frequencies[i] = std::pow(base, exponent);
  }
}

void RotaryAngles(size_t d, uint64_t position, const double* frequencies,
                  float* cos, float* sin) {
  for (size_t i = 0; i < d / 2; ++i) {
    const double angle = static_cast<double>(position) * frequencies[i];
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

void ApplyRotary(size_t d, const float* cos, const float* sin, float* x) {
  HWY_DYNAMIC_DISPATCH(ApplyRotaryOfTarget)(d, cos, sin, x);
}

void ApplyRotaryInterleaved(size_t d, const float* cos, const float* sin,
                            float* x) {
  HWY_DYNAMIC_DISPATCH(ApplyRotaryInterleavedOfTarget)(d, cos, sin, x);
}

}  // namespace steadystate
#endif  // HWY_ONCE
