// Bytes of a row, and sums of neighbours: of products of bytes, and of 16 bits;
// and how those are added up. Include after foreach_target.h.

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

// sum + addend.
template <class V>
HWY_INLINE V AddTo(V sum, V addend) {
  return hn::Add(sum, addend);
}

#if HWY_TARGET == HWY_AVX2
// In the register where the sum is: GCC 12 takes others, and copies them back
// in each step of a loop.
HWY_INLINE hn::Vec256<int16_t> AddTo(hn::Vec256<int16_t> sum,
                                     hn::Vec256<int16_t> addend) {
  asm("vpaddw %1, %0, %0" : "+x"(sum.raw) : "x"(addend.raw));
  return sum;
}
HWY_INLINE hn::Vec256<int32_t> AddTo(hn::Vec256<int32_t> sum,
                                     hn::Vec256<int32_t> addend) {
  asm("vpaddd %1, %0, %0" : "+x"(sum.raw) : "x"(addend.raw));
  return sum;
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_LINEAR_BYTE_PAIRS_INL_H_
