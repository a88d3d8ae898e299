// Per-target building blocks of the kernels. Include after foreach_target.h.
//
// Error bounds are against exact arithmetic, over all finite f32 arguments, on
// every target (those without FMA set the bound). NaN gives NaN.

#if defined(STEADYSTATE_KERNELS_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_SIMD_MATH_INL_H_
#undef STEADYSTATE_KERNELS_SIMD_MATH_INL_H_
#else
#define STEADYSTATE_KERNELS_SIMD_MATH_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The first n < Lanes(d) elements at `from`, then zeros; reads nothing beyond.
template <class D>
HWY_INLINE hn::Vec<D> LoadPartial(D d, const float* from, size_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())] = {};
  std::memcpy(lanes, from, n * sizeof(float));
  return hn::Load(d, lanes);
}

// Writes the first n < Lanes(d) lanes and nothing beyond.
template <class D>
HWY_INLINE void StorePartial(hn::Vec<D> v, D d, float* to, size_t n) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  std::memcpy(to, lanes, n * sizeof(float));
}

// y[i] = op(d, x[i]).
template <class Op>
HWY_INLINE void Map(Op op, size_t n, const float* x, float* y) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(op(d, hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < n) {
    StorePartial(op(d, LoadPartial(d, x + i, n - i)), d, y + i, n - i);
  }
}

// z[i] = op(d, x[i], y[i]).
template <class Op>
HWY_INLINE void Map(Op op, size_t n, const float* x, const float* y, float* z) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(op(d, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, z + i);
  }
  if (i < n) {
    const auto last =
        op(d, LoadPartial(d, x + i, n - i), LoadPartial(d, y + i, n - i));
    StorePartial(last, d, z + i, n - i);
  }
}

// sum_i x[i] y[i], in an order that depends on n only.
HWY_INLINE float Dot(size_t n, const float* x, const float* y) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  size_t i = 0;
  for (; i + 4 * N <= n; i += 4 * N) {
    const float* a = x + i;
    const float* b = y + i;
    sum0 = hn::MulAdd(hn::LoadU(d, a), hn::LoadU(d, b), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + N), hn::LoadU(d, b + N), sum1);
    sum2 = hn::MulAdd(hn::LoadU(d, a + 2 * N), hn::LoadU(d, b + 2 * N), sum2);
    sum3 = hn::MulAdd(hn::LoadU(d, a + 3 * N), hn::LoadU(d, b + 3 * N), sum3);
  }
  for (; i + N <= n; i += N) {
    sum0 = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, y + i), sum0);
  }
  if (i < n) {
    sum1 = hn::MulAdd(LoadPartial(d, x + i, n - i),
                      LoadPartial(d, y + i, n - i), sum1);
  }
  const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// max(a, b); the second where it is NaN.
template <class V>
HWY_INLINE V MaxKeepNan(V a, V b) {
  return hn::IfThenElse(hn::Gt(a, b), a, b);
}

// e^x for every x: 0 for x < -104, infinity above the range. Within 2 ulp,
// subnormal results included.
template <class D, class V>
HWY_INLINE V BoundedExp(D d, V x) {
  const V low = hn::Set(d, -105.0f);
  const V high = hn::Set(d, 100.0f);
  const V from_below = hn::IfThenElse(hn::Gt(x, low), x, low);
  const V bounded = hn::IfThenElse(hn::Lt(from_below, high), from_below, high);
  return hn::IfThenElse(hn::Eq(x, x), hn::Exp(d, bounded), x);
}

// A power of two, or 0, and what it is multiplied by beside one.
template <class V>
struct PowerAndMore {
  V power;
  V more;  // in [-0.3, 0.42]
};

// e^-x = power (1 + more) for x >= 0; below 2^-126 both are 0. e^-0 is exactly
// 1. The product is within 2 ulp, and `more`, which near 0 is e^-x - 1, is so
// itself; half as many instructions as BoundedExp, where exponentials set the
// pace.
template <class D, class V>
HWY_INLINE PowerAndMore<V> ExpOfMinus(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  // x log2(e) is rounded to -n by the sum with a number whose ulp is one; n
  // then stands in its last bits.
  const V one_ulp = hn::Set(d, 12582912.0f);  // 1.5 2^23
  const V shifted = hn::NegMulAdd(x, hn::Set(d, 1.44269504f), one_ulp);
  const V n = hn::Sub(shifted, one_ulp);
  // rest = x + n ln 2, ln 2 in two parts of which the first times n is exact.
  V rest = hn::MulAdd(n, hn::Set(d, 0.693359375f), x);
  rest = hn::MulAdd(n, hn::Set(d, -2.12194440e-4f), rest);
  // e^-rest - 1 for |rest| <= ln(2) / 2 by a polynomial that makes e^-rest
  // right to 3e-9, the best of those that begin with -rest.
  V sum = hn::Set(d, 1.3814467e-3f);
  sum = hn::MulAdd(sum, rest, hn::Set(d, -8.3687805e-3f));
  sum = hn::MulAdd(sum, rest, hn::Set(d, 4.1668394e-2f));
  sum = hn::MulAdd(sum, rest, hn::Set(d, -1.6666520e-1f));
  sum = hn::MulAdd(sum, rest, hn::Set(d, 4.9999993e-1f));
  sum = hn::Mul(hn::MulAdd(sum, rest, hn::Set(d, -1.0f)), rest);
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(du, shifted));
  const V power =
      hn::BitCast(d, hn::Add(exponent, hn::BitCast(du, hn::Set(d, 1.0f))));
  const auto gone = hn::Gt(x, hn::Set(d, 87.33f));
  return {hn::IfThenZeroElse(gone, power), hn::IfThenZeroElse(gone, sum)};
}

// 1 / (1 + e^-x). Within 4 ulp, also where the result is tiny.
template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V small = BoundedExp(d, hn::Neg(hn::Abs(x)));
  const V above = hn::Div(one, hn::Add(one, small));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(small, above), above);
}

// log(1 / (1 + e^-x)) = min(x, 0) - log1p(e^-|x|). Within 4 ulp.
template <class D, class V>
HWY_INLINE V LogSigmoid(D d, V x) {
  const V small = BoundedExp(d, hn::Neg(hn::Abs(x)));
  const V negative = hn::IfThenZeroElse(hn::Gt(x, hn::Zero(d)), x);
  return hn::Sub(negative, hn::Log1p(d, small));
}

// (e^x - e^-x) / (e^x + e^-x). Within 4 ulp.
template <class D, class V>
HWY_INLINE V BoundedTanh(D d, V x) {
  const V limit = hn::Set(d, 10.0f);  // where it is 1 to half an ulp
  const V size = hn::Abs(x);
  const V bounded = hn::IfThenElse(hn::Gt(size, limit), limit, size);
  const V grown = hn::Expm1(d, hn::Add(bounded, bounded));
  const V above = hn::Div(grown, hn::Add(grown, hn::Set(d, 2.0f)));
  return hn::IfThenElse(hn::Eq(x, x), hn::CopySign(above, x), x);
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_SIMD_MATH_INL_H_
