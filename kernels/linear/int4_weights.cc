#include "kernels/linear/int4_weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/int4_weights.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

// Compiled without contraction of floats (CMakeLists.txt), so that all targets
// choose the same scales.

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A lane is a column.
using DF = hn::CappedTag<float, kInt4Panel>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;

constexpr float kFirstExtreme = 5.75f;
constexpr float kExtremeStep = 0.390625f;
constexpr int kScales = 8;

HWY_INLINE VF ToWhole(VF value) {
  const DF d;
  return hn::Min(hn::Max(hn::Round(value), hn::Set(d, -8.0f)),
                 hn::Set(d, 7.0f));
}

// Of each column the weight of the largest magnitude, NaN if any is not finite.
HWY_INLINE VF Extreme(const float* values) {
  const DF d;
  auto extreme = hn::Zero(d);
  auto finite = hn::Zero(d);  // stays so: 0 x is NaN for what is not
  for (size_t i = 0; i < kInt4Group; ++i) {
    const auto value = hn::LoadU(d, values + i * kInt4Panel);
    const auto more = hn::Gt(hn::Abs(value), hn::Abs(extreme));
    extreme = hn::IfThenElse(more, value, extreme);
    finite = hn::Add(finite, hn::Mul(value, hn::Zero(d)));
  }
  return hn::Add(extreme, finite);
}

// Of u = w `inverse`, the multiple of the whole numbers nearest to it.
HWY_INLINE VF BestScale(const float* values, VF inverse) {
  const DF d;
  auto best = hn::Zero(d);
  auto scale = hn::Zero(d);
  for (int i = 0; i < kScales; ++i) {
    const auto factor =
        hn::Set(d, kFirstExtreme + static_cast<float>(i) * kExtremeStep);
    auto along = hn::Zero(d);
    auto size = hn::Zero(d);
    for (size_t k = 0; k < kInt4Group; ++k) {
      const auto u = hn::Mul(hn::LoadU(d, values + k * kInt4Panel), inverse);
      const auto whole = ToWhole(hn::Mul(u, factor));
      along = hn::Add(along, hn::Mul(u, whole));
      size = hn::Add(size, hn::Mul(whole, whole));
    }
    // The error's square is that of u less along^2 / size.
    const auto here = hn::Div(along, size);
    const auto gain = hn::Mul(along, here);
    const auto better = hn::Gt(gain, best);
    best = hn::IfThenElse(better, gain, best);
    scale = hn::IfThenElse(better, here, scale);
  }
  return scale;
}

// Bits of bf16, to nearest, ties to even; NaN becomes a quiet one.
HWY_INLINE hn::Vec<DU> ToBf16(VF value) {
  const DU du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto number = hn::RebindMask(du, hn::Eq(value, value));
  return hn::IfThenElse(number, hn::ShiftRight<16>(up), hn::Set(du, 0x7FC0u));
}

// The columns of one vector.
HWY_INLINE void RoundColumns(float* values, uint8_t* weights,
                             uint16_t* scales) {
  const DF d;
  const DU du;
  const hn::Rebind<uint16_t, DF> d16;
  const hn::RebindToSigned<DF> di;
  const auto zero = hn::Zero(d);
  const auto extreme = Extreme(values);
  const auto some = hn::Ge(hn::Abs(extreme), hn::Set(d, 1e-30f));
  const auto inverse = hn::Div(hn::Set(d, -1.0f),
                               hn::IfThenElse(some, extreme, hn::Set(d, 1.0f)));
  const auto found = hn::Mul(hn::Neg(extreme), BestScale(values, inverse));
  const auto number = hn::Eq(extreme, extreme);
  const auto of_number = hn::IfThenElse(some, found, zero);
  const auto bits = ToBf16(hn::IfThenElse(number, of_number, extreme));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, bits)), d16, scales);
  const auto scale = hn::BitCast(d, hn::ShiftLeft<16>(bits));
  const auto one_over =
      hn::Div(hn::Set(d, 1.0f), hn::IfThenElse(some, scale, hn::Set(d, 1.0f)));
  HWY_ALIGN uint32_t lanes[kInt4Panel];
  for (size_t k = 0; k < kInt4Group; ++k) {
    float* const at = values + k * kInt4Panel;
    const auto value = hn::LoadU(d, at);
    // Zeros where the column is, or is no number.
    const auto whole =
        hn::IfThenElse(some, ToWhole(hn::Mul(value, one_over)), zero);
    hn::StoreU(
        hn::IfThenElse(some, hn::Sub(value, hn::Mul(scale, whole)), zero), d,
        at);
    const auto stored = hn::Add(whole, hn::Set(d, float{kInt4Zero}));
    hn::StoreU(hn::BitCast(du, hn::NearestInt(stored)), du, lanes);
    const size_t step = k % 16 / 4;
    uint8_t* const to = weights + step * kInt4Panel * 4 + k % 4;
    for (size_t j = 0; j < hn::Lanes(d); ++j) {
      const auto half = static_cast<uint8_t>(lanes[j]);
      to[4 * j] = k < 16 ? half : static_cast<uint8_t>(to[4 * j] | half << 4);
    }
  }
}

void RoundOfTarget(float* values, uint8_t* weights, uint16_t* scales) {
  const size_t N = hn::Lanes(DF());
  for (size_t j = 0; j < kInt4Panel; j += N) {
    RoundColumns(values + j, weights + 4 * j, scales + j);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(RoundOfTarget);

void RoundInt4Weights(float* values, uint8_t* weights, uint16_t* scales) {
  HWY_DYNAMIC_DISPATCH(RoundOfTarget)(values, weights, scales);
}

}  // namespace steadystate
#endif  // HWY_ONCE
