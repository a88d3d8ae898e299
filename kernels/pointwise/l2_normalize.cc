#include "kernels/pointwise/l2_normalize.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/l2_normalize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct TimesOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, hn::Set(d, factor));
  }
  float factor;
};

void L2NormalizeOfTarget(size_t n, const float* x, float eps, float* y) {
  Map(TimesOp{1.0f / std::sqrt(Dot(n, x, x) + eps)}, n, x, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(L2NormalizeOfTarget);

void L2Normalize(size_t n, const float* x, float eps, float* y) {
  HWY_DYNAMIC_DISPATCH(L2NormalizeOfTarget)(n, x, eps, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
