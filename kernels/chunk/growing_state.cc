#include "kernels/chunk/growing_state.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/growing_state.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void NarrowStateOfTarget(size_t n, const double* state, float* narrow) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> d32;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(hn::DemoteTo(d32, hn::LoadU(d, state + i)), d32, narrow + i);
  }
  for (; i < n; ++i) narrow[i] = static_cast<float>(state[i]);
}

template <class D>
HWY_INLINE void AddVector(D d, double kept, const float* added, double* state) {
  const hn::Rebind<float, D> d32;
  const auto more = hn::PromoteTo(d, hn::LoadU(d32, added));
  hn::StoreU(hn::MulAdd(hn::Set(d, kept), hn::LoadU(d, state), more), d, state);
}

void AddToStateOfTarget(size_t n, double kept, const float* added,
                        double* state) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) AddVector(d, kept, added + i, state + i);
  for (; i < n; ++i) AddVector(d1, kept, added + i, state + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(NarrowStateOfTarget);
HWY_EXPORT(AddToStateOfTarget);

void NarrowState(size_t n, const double* state, float* narrow) {
  HWY_DYNAMIC_DISPATCH(NarrowStateOfTarget)(n, state, narrow);
}

void AddToState(size_t n, double kept, const float* added, double* state) {
  HWY_DYNAMIC_DISPATCH(AddToStateOfTarget)(n, kept, added, state);
}

}  // namespace steadystate
#endif  // HWY_ONCE
