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

// Rows of taps and window are `stride` apart; the pointers stand at the first
// channel.
struct Channels {
  size_t stride;
  size_t W;
  const float* taps;
  const float* bias;
  float* window;
  const float* x;
  float* y;
};

// Convolves one vector of channels from channel c on and moves its window.
template <class D>
HWY_INLINE void OneVector(D d, const Channels& ch, size_t c) {
  const auto x = hn::LoadU(d, ch.x + c);
  auto sum = ch.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, ch.bias + c);
  for (size_t w = 0; w + 1 < ch.W; ++w) {
    float* slot = ch.window + w * ch.stride + c;
    const auto past = hn::LoadU(d, slot);
    sum = hn::MulAdd(hn::LoadU(d, ch.taps + w * ch.stride + c), past, sum);
    hn::StoreU(w + 2 < ch.W ? hn::LoadU(d, slot + ch.stride) : x, d, slot);
  }
  const float* last_tap = ch.taps + (ch.W - 1) * ch.stride + c;
  sum = hn::MulAdd(hn::LoadU(d, last_tap), x, sum);
  hn::StoreU(sum, d, ch.y + c);
}

void ConvolveOfTarget(size_t C, size_t stride, size_t W, const float* taps,
                      const float* bias, float* window, const float* x,
                      float* y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const Channels ch{stride, W, taps, bias, window, x, y};
  size_t c = 0;
  for (; c + N <= C; c += N) OneVector(d, ch, c);
  for (; c < C; ++c) OneVector(d1, ch, c);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ConvolveOfTarget);

void ShortConvStep(size_t C, size_t stride, size_t W, const float* taps,
                   const float* bias, Activation act, float* window,
                   const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(ConvolveOfTarget)
  (C, stride, W, taps, bias, window, x, y);
  if (act != Activation::kIdentity) Activate(act, C, y, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
