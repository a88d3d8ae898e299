#include "kernels/pointwise/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pointwise/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct IdentityOp {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};

struct ReluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
};

struct SigmoidOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return Sigmoid(d, x);
  }
};

struct LogSigmoidOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return LogSigmoid(d, x);
  }
};

struct SiluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Mul(x, Sigmoid(d, x));
  }
};

struct SqreluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V positive = ReluOp()(d, x);
    return hn::Mul(positive, positive);
  }
};

// (1 + tanh(u)) / 2 = sigmoid(2u), which does not cancel for negative u.
struct GeluTanhOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V slope = hn::Set(d, 1.5957691216057308f);    // 2 sqrt(2/pi)
    const V cubic = hn::Set(d, 0.071354816272600207f);  // slope * 0.044715
    const V u = hn::Mul(x, hn::MulAdd(cubic, hn::Mul(x, x), slope));
    return hn::Mul(x, Sigmoid(d, u));
  }
};

struct PowluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V one = hn::Set(d, 1.0f);
    const auto is_positive = hn::Gt(x, hn::Zero(d));
    const V base = hn::IfThenElse(is_positive, x, one);
    const V power = hn::Div(hn::Set(d, 3.0f), hn::Add(hn::Sqrt(base), one));
    const V grown = BoundedExp(d, hn::Mul(power, hn::Log(d, base)));
    return hn::Mul(hn::IfThenElse(is_positive, grown, x), Sigmoid(d, x));
  }
};

struct AddOp {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, V y) const {
    return hn::Add(x, y);
  }
};

template <class Op>
struct TimesOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V gate, V up) const {
    return hn::Mul(Op()(d, gate), up);
  }
};

struct LogSigmoidDecayOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a) const {
    const V log_decay = hn::Div(LogSigmoid(d, a), hn::Set(d, temperature));
    return BoundedExp(d, MaxKeepNan(hn::Set(d, floor), log_decay));
  }
  float temperature;
  float floor;
};

// Calls run(op) with the functor of `act`.
template <class Run>
HWY_INLINE void WithOp(Activation act, const Run& run) {
  switch (act) {
    case Activation::kIdentity:
      return run(IdentityOp());
    case Activation::kRelu:
      return run(ReluOp());
    case Activation::kSigmoid:
      return run(SigmoidOp());
    case Activation::kLogSigmoid:
      return run(LogSigmoidOp());
    case Activation::kSilu:
      return run(SiluOp());
    case Activation::kSqrelu:
      return run(SqreluOp());
    case Activation::kGeluTanh:
      return run(GeluTanhOp());
    case Activation::kPowlu:
      return run(PowluOp());
  }
}

struct RunMap {
  template <class Op>
  HWY_INLINE void operator()(Op op) const {
    Map(op, n, x, y);
  }
  size_t n;
  const float* x;
  float* y;
};

struct RunTimesMap {
  template <class Op>
  HWY_INLINE void operator()(Op) const {
    Map(TimesOp<Op>(), n, gate, up, y);
  }
  size_t n;
  const float* gate;
  const float* up;
  float* y;
};

void ActivateOfTarget(Activation act, size_t n, const float* x, float* y) {
  WithOp(act, RunMap{n, x, y});
}

void ActivateAndMultiplyOfTarget(Activation act, size_t n, const float* gate,
                                 const float* up, float* y) {
  WithOp(act, RunTimesMap{n, gate, up, y});
}

void LogSigmoidDecayOfTarget(size_t n, const float* a, float temperature,
                             float floor, float* decay) {
  Map(LogSigmoidDecayOp{temperature, floor}, n, a, decay);
}

void AddToOfTarget(size_t n, const float* x, float* y) {
  Map(AddOp(), n, x, y, y);
}

// The bits of |x| as integers order as the numbers do, NaN above infinity.
bool AllFiniteOfTarget(size_t n, const float* x) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t N = hn::Lanes(d);
  auto largest = hn::Zero(di);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const auto bits = hn::BitCast(di, hn::Abs(hn::LoadU(d, x + i)));
    largest = hn::Max(largest, bits);
  }
  if (i < n) {
    const auto bits = hn::BitCast(di, hn::Abs(LoadPartial(d, x + i, n - i)));
    largest = hn::Max(largest, bits);
  }
  return hn::AllTrue(di, hn::Lt(largest, hn::Set(di, 0x7F800000)));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {
namespace {

struct NamedActivation {
  std::string_view name;
  Activation act;
};

constexpr NamedActivation kActivations[] = {
    {"swish", Activation::kSilu},
    {"silu", Activation::kSilu},
    {"relu", Activation::kRelu},
    {"sigmoid", Activation::kSigmoid},
    {"logsigmoid", Activation::kLogSigmoid},
    {"sqrelu", Activation::kSqrelu},
    {"gelu", Activation::kGeluTanh},
    {"powlu", Activation::kPowlu},
};

}  // namespace

HWY_EXPORT(ActivateOfTarget);
HWY_EXPORT(ActivateAndMultiplyOfTarget);
HWY_EXPORT(LogSigmoidDecayOfTarget);
HWY_EXPORT(AddToOfTarget);
HWY_EXPORT(AllFiniteOfTarget);

std::optional<Activation> ActivationFromName(std::string_view name) {
  for (const NamedActivation& row : kActivations) {
    if (row.name == name) return row.act;
  }
  return std::nullopt;
}

void Activate(Activation act, size_t n, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(ActivateOfTarget)(act, n, x, y);
}

void ActivateAndMultiply(Activation act, size_t n, const float* gate,
                         const float* up, float* y) {
  HWY_DYNAMIC_DISPATCH(ActivateAndMultiplyOfTarget)(act, n, gate, up, y);
}

void LogSigmoidDecay(size_t n, const float* a, float temperature, float floor,
                     float* decay) {
  HWY_DYNAMIC_DISPATCH(LogSigmoidDecayOfTarget)
  (n, a, temperature, floor, decay);
}

void AddTo(size_t n, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(AddToOfTarget)(n, x, y);
}

bool AllFinite(size_t n, const float* x) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteOfTarget)(n, x);
}

}  // namespace steadystate
#endif  // HWY_ONCE
