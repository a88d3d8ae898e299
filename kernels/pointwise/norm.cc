#include "kernels/pointwise/norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct ScaleOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, hn::Set(d, factor));
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V weight) const {
    return hn::Mul((*this)(d, x), weight);
  }
  float factor;
};

void RmsNormOfTarget(size_t n, const float* x, const float* weight, float eps,
                     float* y) {
  const float mean_square = Dot(n, x, x) / static_cast<float>(n);
  const ScaleOp scale{1.0f / std::sqrt(mean_square + eps)};
  if (weight == nullptr) {
    Map(scale, n, x, y);
  } else {
    Map(scale, n, x, weight, y);
  }
}

struct CenterOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Sub(x, hn::Set(d, mean));
  }
  float mean;
};

struct AddOp {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V y) const {
    return hn::Add(x, y);
  }
};

// Two passes: a variance from sums of squares would cancel where the mean is
// large.
void LayerNormOfTarget(size_t n, const float* x, const float* weight,
                       const float* bias, float eps, float* y) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  Map(CenterOp{static_cast<float>(sum / static_cast<double>(n))}, n, x, y);
  RmsNormOfTarget(n, y, weight, eps, y);
  if (bias != nullptr) Map(AddOp(), n, y, bias, y);
}

void L2NormalizeOfTarget(size_t n, const float* x, float eps, float* y) {
  Map(ScaleOp{1.0f / std::sqrt(Dot(n, x, x) + eps)}, n, x, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(RmsNormOfTarget);
HWY_EXPORT(LayerNormOfTarget);

void RmsNorm(size_t n, const float* x, const float* weight, float eps,
             float* y) {
  HWY_DYNAMIC_DISPATCH(RmsNormOfTarget)(n, x, weight, eps, y);
}

void LayerNorm(size_t n, const float* x, const float* weight, const float* bias,
               float eps, float* y) {
  HWY_DYNAMIC_DISPATCH(LayerNormOfTarget)(n, x, weight, bias, eps, y);
}

HWY_EXPORT(L2NormalizeOfTarget);

void L2Normalize(size_t n, const float* x, float eps, float* y) {
  HWY_DYNAMIC_DISPATCH(L2NormalizeOfTarget)(n, x, eps, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
