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

// x Phi(x), where Phi(-|x|) = e^(-x^2/2) t P(2t - 1), t = 1/(1 + 0.28 |x|).
// The polynomial is a Chebyshev fit of Phi's quotient over all of t's range,
// (0, 1], with a relative error of 9e-9. The tail does not cancel.
struct GeluOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    static constexpr float kCoefficients[] = {
        0.210806363f,    0.160930386f,     0.0907829052f,    0.0342498975f,
        0.00567133524f,  -0.00167662637f,  -0.000959472233f, 8.2784997e-05f,
        0.000131858162f, -5.40142596e-06f, -1.40320258e-05f};
    const V one = hn::Set(d, 1.0f);
    const V slope = hn::Set(d, 0.28284271f);
    const V t = hn::Div(one, hn::MulAdd(slope, hn::Abs(x), one));
    const V w = hn::Sub(hn::Add(t, t), one);
    V sum = hn::Set(d, kCoefficients[10]);
    for (size_t i = 10; i-- > 0;) {
      sum = hn::MulAdd(sum, w, hn::Set(d, kCoefficients[i]));
    }
    const V density = BoundedExp(d, hn::Mul(hn::Mul(hn::Set(d, -0.5f), x), x));
    const V below = hn::Mul(hn::Mul(t, sum), density);
    const auto is_negative = hn::Lt(x, hn::Zero(d));
    return hn::Mul(x, hn::IfThenElse(is_negative, below, hn::Sub(one, below)));
  }
};

struct TanhOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return BoundedTanh(d, x);
  }
};

struct ExpOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return BoundedExp(d, x);
  }
};

struct SoftplusOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V bent = hn::Neg(LogSigmoid(d, hn::Neg(x)));
    return hn::IfThenElse(hn::Gt(x, hn::Set(d, 20.0f)), x, bent);
  }
};

struct EluPlusOneOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Add(x, hn::Set(d, 1.0f)),
                          BoundedExp(d, x));
  }
};

struct SoftCapOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V bound = hn::Set(d, cap);
    return hn::Mul(bound, BoundedTanh(d, hn::Div(x, bound)));
  }
  float cap;
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
    case Activation::kGelu:
      return run(GeluOp());
    case Activation::kTanh:
      return run(TanhOp());
    case Activation::kExp:
      return run(ExpOp());
    case Activation::kSoftplus:
      return run(SoftplusOp());
    case Activation::kEluPlusOne:
      return run(EluPlusOneOp());
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

void SoftCapOfTarget(size_t n, float cap, const float* x, float* y) {
  Map(SoftCapOp{cap}, n, x, y);
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
HWY_EXPORT(SoftCapOfTarget);
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

void SoftCap(size_t n, float cap, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(SoftCapOfTarget)(n, cap, x, y);
}

void AddTo(size_t n, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(AddToOfTarget)(n, x, y);
}

bool AllFinite(size_t n, const float* x) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteOfTarget)(n, x);
}

}  // namespace steadystate
#endif  // HWY_ONCE
