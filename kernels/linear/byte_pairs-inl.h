// Bytes of a row, and sums of neighbours: of products of bytes, and of 16 bits.
// Include after foreach_target.h.

#if defined(STEADYSTATE_KERNELS_LINEAR_BYTE_PAIRS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_LINEAR_BYTE_PAIRS_INL_H_
#undef STEADYSTATE_KERNELS_LINEAR_BYTE_PAIRS_INL_H_
#else
#define STEADYSTATE_KERNELS_LINEAR_BYTE_PAIRS_INL_H_
#endif

#include <cstdint>
#include <cstring>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The next four bytes of a row, for every lane.
template <class DI>
HWY_INLINE hn::Vec<DI> FourBytes(DI d, const void* x) {
  int32_t four;
  std::memcpy(&four, x, sizeof(four));
  return hn::Set(d, four);
}

#if HWY_TARGET != HWY_SCALAR  // whose vectors have no parts

// a0 b0 + a1 b1 of each two bytes, exactly.
//   a  u8, at most 127
//   b  s8, of the same lanes
template <class DI>
HWY_INLINE hn::Vec<hn::Repartition<int16_t, DI>> AddBytePairs(DI, hn::Vec<DI> a,
                                                              hn::Vec<DI> b) {
  using D = hn::Repartition<int16_t, DI>;
#if HWY_TARGET == HWY_AVX2
  return hn::Vec<D>{_mm256_maddubs_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX3
  return hn::Vec<D>{_mm512_maddubs_epi16(a.raw, b.raw)};
#else
  const D d;
  const auto factors = hn::BitCast(d, a);
  const auto others = hn::BitCast(d, b);
  const auto even = hn::And(factors, hn::Set(d, int16_t{0xFF}));
  const auto odd = hn::ShiftRight<8>(factors);  // at most 127: no sign
  const auto even_others = hn::ShiftRight<8>(hn::ShiftLeft<8>(others));
  const auto odd_others = hn::ShiftRight<8>(others);
  return hn::Add(hn::Mul(even, even_others), hn::Mul(odd, odd_others));
#endif
}

// The same of bytes that both have signs: |a| times b with the sign of a.
//   a, b  s8, at least -127
template <class DI>
HWY_INLINE hn::Vec<hn::Repartition<int16_t, DI>> AddSignedBytePairs(
    DI d, hn::Vec<DI> a, hn::Vec<DI> b) {
  const hn::Repartition<int8_t, DI> d8;
  const auto bytes = hn::BitCast(d8, a);
  const auto size = hn::BitCast(d, hn::Abs(bytes));
#if HWY_TARGET == HWY_AVX2
  return AddBytePairs(d, size, hn::Vec<DI>{_mm256_sign_epi8(b.raw, a.raw)});
#else
  const auto factors = hn::BitCast(d8, b);
  const auto turned =
      hn::IfThenElse(hn::Lt(bytes, hn::Zero(d8)), hn::Neg(factors), factors);
  return AddBytePairs(d, size, hn::BitCast(d, turned));
#endif
}

// s0 + s1 of each two of 16 bits.
template <class DI>
HWY_INLINE hn::Vec<DI> AddPairs(DI d, hn::Vec<hn::Repartition<int16_t, DI>> s) {
#if HWY_TARGET == HWY_AVX2
  return hn::Vec<DI>{_mm256_madd_epi16(s.raw, _mm256_set1_epi16(1))};
#elif HWY_TARGET == HWY_AVX3
  return hn::Vec<DI>{_mm512_madd_epi16(s.raw, _mm512_set1_epi16(1))};
#else
  const auto pairs = hn::BitCast(d, s);
  const auto even = hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs));
  return hn::Add(even, hn::ShiftRight<16>(pairs));
#endif
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_LINEAR_BYTE_PAIRS_INL_H_
