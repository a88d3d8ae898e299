#include "kernels/feature_map/mat_vec.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/feature_map/mat_vec.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void MatVecOfTarget(size_t r, size_t d, const float* w, const float* bias,
                    const float* x, float* y) {
  for (size_t i = 0; i < r; ++i) {
    const float product = Dot(d, w + i * d, x);
    y[i] = bias == nullptr ? product : product + bias[i];
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(MatVecOfTarget);

void MatVec(size_t r, size_t d, const float* w, const float* bias,
            const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(MatVecOfTarget)(r, d, w, bias, x, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
