#include "kernels/pointwise/short_conv.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/short_conv.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Convolves one vector of channels from channel c on and moves its window.
template <class D>
HWY_INLINE void OneVector(D d, const ShortConv& conv, size_t c, float* window,
                          const float* in, float* out) {
  const auto x = hn::LoadU(d, in + c);
  auto sum = conv.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, conv.bias + c);
  for (size_t w = 0; w + 1 < conv.W; ++w) {
    float* slot = window + w * conv.stride + c;
    const auto past = hn::LoadU(d, slot);
    sum = hn::MulAdd(hn::LoadU(d, conv.taps + w * conv.stride + c), past, sum);
    hn::StoreU(w + 2 < conv.W ? hn::LoadU(d, slot + conv.stride) : x, d, slot);
  }
  const float* last_tap = conv.taps + (conv.W - 1) * conv.stride + c;
  sum = hn::MulAdd(hn::LoadU(d, last_tap), x, sum);
  hn::StoreU(sum, d, out + c);
}

void ConvolveOfTarget(const ShortConv& conv, float* window, const float* x,
                      float* y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  // A copy, which no store can change.
  const ShortConv own = conv;
  size_t c = 0;
  for (; c + N <= own.C; c += N) OneVector(d, own, c, window, x, y);
  for (; c < own.C; ++c) OneVector(d1, own, c, window, x, y);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ConvolveOfTarget);

void ShortConvStep(const ShortConv& conv, float* window, const float* x,
                   float* y) {
  HWY_DYNAMIC_DISPATCH(ConvolveOfTarget)(conv, window, x, y);
  if (conv.act != Activation::kIdentity) Activate(conv.act, conv.C, y, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
