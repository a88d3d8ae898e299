#include "kernels/dtype.h"

#include <algorithm>
#include <bit>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dtype.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Integer arithmetic on the bits, not the CPU's conversion: that one flushes
// subnormals to zero and exists on few targets.
template <class DF>
HWY_INLINE void RoundToBf16(DF df, const float* from, uint16_t* to) {
  const hn::RebindToUnsigned<DF> du;
  const hn::RebindToSigned<DF> di;
  const hn::Rebind<uint16_t, DF> d16;
  const auto value = hn::LoadU(df, from);
  const auto bits = hn::BitCast(du, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(du, 1u));
  const auto even_up = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto rounded = hn::ShiftRight<16>(even_up);
  const auto quiet_nan = hn::Or(upper, hn::Set(du, 0x40u));
  const auto is_number = hn::RebindMask(du, hn::Eq(value, value));
  const auto result = hn::IfThenElse(is_number, rounded, quiet_nan);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, result)), d16, to);
}

void RoundAllToBf16(size_t n, const float* from, uint16_t* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) RoundToBf16(d, from + i, to + i);
  for (; i < n; ++i) RoundToBf16(d1, from + i, to + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {
namespace {

float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFu) << 13;
  if (magnitude >= 0x0F800000u) {  // infinity and NaN
    return std::bit_cast<float>(sign | 0x7F800000u | magnitude);
  }
  // Moving the exponent's bias by a multiplication is exact and normalises
  // subnormals on the way.
  const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

template <float (*Convert)(uint16_t)>
void ConvertAll(const unsigned char* from, size_t n, float* to) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof(bits));
    to[i] = Convert(bits);
  }
}

}  // namespace

HWY_EXPORT(RoundAllToBf16);

void ConvertToF32(TypedData from, size_t first, size_t n, float* to) {
  if (n == 0) return;
  const auto* bytes =
      static_cast<const unsigned char*>(from.data) + first * SizeOf(from.dtype);
  switch (from.dtype) {
    case DType::kF32:
      std::memcpy(to, bytes, n * sizeof(float));
      return;
    case DType::kBf16:
      ConvertAll<FromBf16>(bytes, n, to);
      return;
    case DType::kF16:
      ConvertAll<FromF16>(bytes, n, to);
      return;
    case DType::kI8:
      std::copy_n(static_cast<const int8_t*>(from.data) + first, n, to);
      return;
    case DType::kI4:
      return;  // of no tensor
  }
}

void ConvertToBf16(size_t n, const float* from, uint16_t* to) {
  HWY_DYNAMIC_DISPATCH(RoundAllToBf16)(n, from, to);
}

}  // namespace steadystate
#endif  // HWY_ONCE
