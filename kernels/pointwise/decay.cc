#include "kernels/pointwise/decay.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct FlooredSigmoidOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V floor) const {
    const V room = hn::Sub(hn::Set(d, 1.0f), floor);
    return hn::MulAdd(room, Sigmoid(d, a), floor);
  }
};

// 1 - sigmoid(a) is sigmoid(-a), which does not cancel.
struct FlooredSigmoidRestOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V floor) const {
    const V room = hn::Sub(hn::Set(d, 1.0f), floor);
    return hn::Mul(room, Sigmoid(d, hn::Neg(a)));
  }
};

struct LackOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V decay, V rest) const {
    const V known = hn::Sub(hn::Set(d, 1.0f), decay);  // exact where it counts
    const V lack = hn::Sub(known, rest);
    return hn::IfThenZeroElse(hn::Lt(decay, hn::Set(d, 0.5f)), lack);
  }
};

struct RestOfLogOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V log_decay) const {
    // e^x is nothing beside 1 from here on; expm1 is defined for finite x.
    const V bounded = MaxKeepNan(hn::Set(d, -100.0f), log_decay);
    const V rest = hn::Neg(hn::Expm1(d, bounded));
    return hn::IfThenElse(hn::Eq(log_decay, log_decay), rest, log_decay);
  }
};

// Where 1 - decay has bits that the decay has not. Beyond, e^x is exact to its
// own ulps, and 1 - decay to no less.
template <class D, class V>
HWY_INLINE auto IsNearOne(D d, V log_decay) {
  return hn::Gt(log_decay, hn::Set(d, -0.5f));
}

// e^x - 1 for x near 0, 0 for others and for NaN.
template <class D, class V>
HWY_INLINE V LossOf(D d, V log_decay) {
  return hn::Expm1(d, hn::IfThenElseZero(IsNearOne(d, log_decay), log_decay));
}

struct SplitDecayOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V log_decay, V) const {
    const V near = hn::Add(hn::Set(d, 1.0f), LossOf(d, log_decay));
    return hn::IfThenElse(IsNearOne(d, log_decay), near,
                          BoundedExp(d, log_decay));
  }
};

// Both differences are exact.
struct SplitDecayLowOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V log_decay, V) const {
    const V one = hn::Set(d, 1.0f);
    const V loss = LossOf(d, log_decay);
    return hn::Sub(loss, hn::Sub(hn::Add(one, loss), one));
  }
};

struct LogSigmoidLogOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    const V log_decay = hn::Div(LogSigmoid(d, a), hn::Set(d, temperature));
    return MaxKeepNan(hn::Set(d, floor), log_decay);
  }
  float temperature;
  float floor;
};

// y[i] and z[i] are two functions of x1[i] and x2[i], all four anywhere.
template <class Op1, class Op2>
HWY_INLINE void MapToTwo(Op1 op1, Op2 op2, size_t n, const float* x1,
                         const float* x2, float* y, float* z) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const auto v1 = hn::LoadU(d, x1 + i);
    const auto v2 = hn::LoadU(d, x2 + i);
    hn::StoreU(op1(d, v1, v2), d, y + i);
    hn::StoreU(op2(d, v1, v2), d, z + i);
  }
  if (i < n) {
    const auto v1 = LoadPartial(d, x1 + i, n - i);
    const auto v2 = LoadPartial(d, x2 + i, n - i);
    StorePartial(op1(d, v1, v2), d, y + i, n - i);
    StorePartial(op2(d, v1, v2), d, z + i, n - i);
  }
}

void FlooredSigmoidDecayOfTarget(size_t n, const float* a, const float* floor,
                                 float* decay, float* rest) {
  MapToTwo(FlooredSigmoidOp(), FlooredSigmoidRestOp(), n, a, floor, decay,
           rest);
}

void LackOfDecayOfTarget(size_t n, const float* decay, const float* rest,
                         float* low) {
  Map(LackOp(), n, decay, rest, low);
}

void SplitDecayOfTarget(size_t n, const float* log_decay, float* decay,
                        float* low) {
  MapToTwo(SplitDecayOp(), SplitDecayLowOp(), n, log_decay, log_decay, decay,
           low);
}

void LogSigmoidLogDecayOfTarget(size_t n, const float* a, float temperature,
                                float floor, float* log_decay) {
  Map(LogSigmoidLogOp{temperature, floor}, n, a, log_decay);
}

void RestOfLogDecayOfTarget(size_t n, const float* log_decay, float* rest) {
  Map(RestOfLogOp(), n, log_decay, rest);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(FlooredSigmoidDecayOfTarget);
HWY_EXPORT(LackOfDecayOfTarget);
HWY_EXPORT(RestOfLogDecayOfTarget);
HWY_EXPORT(SplitDecayOfTarget);
HWY_EXPORT(LogSigmoidLogDecayOfTarget);

void FlooredSigmoidDecay(size_t n, const float* a, const float* floor,
                         float* decay, float* rest) {
  HWY_DYNAMIC_DISPATCH(FlooredSigmoidDecayOfTarget)(n, a, floor, decay, rest);
}

void LackOfDecay(size_t n, const float* decay, const float* rest, float* low) {
  HWY_DYNAMIC_DISPATCH(LackOfDecayOfTarget)(n, decay, rest, low);
}

void RestOfLogDecay(size_t n, const float* log_decay, float* rest) {
  HWY_DYNAMIC_DISPATCH(RestOfLogDecayOfTarget)(n, log_decay, rest);
}

void SplitDecay(size_t n, const float* log_decay, float* decay, float* low) {
  HWY_DYNAMIC_DISPATCH(SplitDecayOfTarget)(n, log_decay, decay, low);
}

void LogSigmoidLogDecay(size_t n, const float* a, float temperature,
                        float floor, float* log_decay) {
  HWY_DYNAMIC_DISPATCH(LogSigmoidLogDecayOfTarget)
  (n, a, temperature, floor, log_decay);
}

void PolarDecay(size_t n, const float* log_size, const float* phase, float* re,
                float* re_low, float* im, float* im_low) {
  const auto split = [](double exact, float& nearest, float& low) {
    nearest = static_cast<float>(exact);
    low = static_cast<float>(exact - static_cast<double>(nearest));
  };
  constexpr float kLimit = 39000.0f;
  for (size_t i = 0; i < n; ++i) {
    // Not std::clamp, which may take NaN for the limit.
    const float p = phase[i] > kLimit    ? kLimit
                    : phase[i] < -kLimit ? -kLimit
                                         : phase[i];
    const double r = std::exp(static_cast<double>(log_size[i]));
    const auto angle = static_cast<double>(p);
    split(r * std::cos(angle), re[i], re_low[i]);
    split(r * std::sin(angle), im[i], im_low[i]);
  }
}

}  // namespace steadystate
#endif  // HWY_ONCE
