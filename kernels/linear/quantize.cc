#include "kernels/linear/quantize.h"

#include <bit>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/quantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The bits of the largest magnitude. As whole numbers magnitudes are ordered as
// they are as floats, with infinity and then NaN above the others.
uint32_t LargestMagnitude(size_t n, const float* x) {
  const hn::ScalableTag<uint32_t> d;
  const hn::Repartition<float, decltype(d)> df;
  const auto magnitude = hn::Set(d, 0x7FFFFFFFu);
  auto most = hn::Zero(d);
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    const auto bits = hn::BitCast(d, hn::LoadU(df, x + i));
    most = hn::Max(most, hn::And(bits, magnitude));
  }
  uint32_t result = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    bits &= 0x7FFFFFFFu;
    if (bits > result) result = bits;
  }
  return result;
}

template <class DF>
HWY_INLINE void QuantizeLanes(DF df, const float* x, float inverse, int zero,
                              uint8_t* to) {
  const hn::Rebind<int8_t, DF> d8;
  const auto scaled = hn::Mul(hn::LoadU(df, x), hn::Set(df, inverse));
  const auto bytes = hn::DemoteTo(d8, hn::NearestInt(scaled));
  // Modulo 256, so signed and unsigned ranges are the same addition.
  const auto shifted = hn::Add(bytes, hn::Set(d8, static_cast<int8_t>(zero)));
  hn::StoreU(shifted, d8, reinterpret_cast<int8_t*>(to));
}

void QuantizeOfTarget(size_t n, const float* x, float inverse, int zero,
                      uint8_t* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) QuantizeLanes(d, x + i, inverse, zero, to + i);
  for (; i < n; ++i) QuantizeLanes(d1, x + i, inverse, zero, to + i);
}

template <class DF>
HWY_INLINE hn::Vec<DF> DequantizeLanes(DF df, const int32_t* sums,
                                       const int32_t* offsets, float row_scale,
                                       const float* scales) {
  const hn::RebindToSigned<DF> di;
  auto exact = hn::LoadU(di, sums);
  if (offsets != nullptr) exact = hn::Sub(exact, hn::LoadU(di, offsets));
  const auto scale = hn::Mul(hn::Set(df, row_scale), hn::LoadU(df, scales));
  return hn::Mul(hn::ConvertTo(df, exact), scale);
}

template <class DF>
HWY_INLINE void DequantizeTo(DF df, const int32_t* sums, const int32_t* offsets,
                             float row_scale, const float* scales,
                             const float* bias, float* y) {
  auto value = DequantizeLanes(df, sums, offsets, row_scale, scales);
  if (bias != nullptr) value = hn::Add(value, hn::LoadU(df, bias));
  hn::StoreU(value, df, y);
}

void DequantizeOfTarget(size_t n, const int32_t* sums, const int32_t* offsets,
                        float row_scale, const float* scales, const float* bias,
                        float* y) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    DequantizeTo(d, sums + i, offsets == nullptr ? nullptr : offsets + i,
                 row_scale, scales + i, bias == nullptr ? nullptr : bias + i,
                 y + i);
  }
  for (; i < n; ++i) {
    DequantizeTo(d1, sums + i, offsets == nullptr ? nullptr : offsets + i,
                 row_scale, scales + i, bias == nullptr ? nullptr : bias + i,
                 y + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(QuantizeOfTarget);
HWY_EXPORT(DequantizeOfTarget);

float QuantizeRow(size_t n, const float* x, ByteRange range, uint8_t* to) {
  // Below this 1 / s may overflow.
  constexpr float kLeast = 1e-30f;
  const float largest =
      std::bit_cast<float>(HWY_DYNAMIC_DISPATCH(LargestMagnitude)(n, x));
  const bool finite = largest <= std::numeric_limits<float>::max();
  if (!finite || largest < kLeast) {
    std::memset(to, range.zero, n);
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const auto limit = static_cast<float>(range.limit);
  HWY_DYNAMIC_DISPATCH(QuantizeOfTarget)(n, x, limit / largest, range.zero, to);
  return largest / limit;
}

void DequantizeRow(size_t n, const int32_t* sums, const int32_t* offsets,
                   float row_scale, const float* scales, const float* bias,
                   float* y) {
  HWY_DYNAMIC_DISPATCH(DequantizeOfTarget)
  (n, sums, offsets, row_scale, scales, bias, y);
}

}  // namespace steadystate
#endif  // HWY_ONCE
