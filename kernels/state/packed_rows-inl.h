// Rows of states in 16 bits as float32 vectors and back: bf16, and whole
// numbers in groups of columns that have a unit in common. Include after
// foreach_target.h.

#if defined(STEADYSTATE_KERNELS_STATE_PACKED_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_STATE_PACKED_ROWS_INL_H_
#undef STEADYSTATE_KERNELS_STATE_PACKED_ROWS_INL_H_
#else
#define STEADYSTATE_KERNELS_STATE_PACKED_ROWS_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/state/packed_matrix.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Lanes(d) elements, exactly.
template <class D>
HWY_INLINE hn::Vec<D> LoadBf16(D d, const uint16_t* from) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> half;
  const auto upper = hn::PromoteTo(du, hn::LoadU(half, from));
  return hn::BitCast(d, hn::ShiftLeft<16>(upper));
}

// Rounds up or down, each as likely as the other side is near: adds the noise,
// below 2^16, to the bits that are cut off. What has no such bits stays, and so
// do infinities; NaN stays NaN or becomes an infinity.
template <class D>
HWY_INLINE void StoreBf16(hn::Vec<D> s, hn::Vec<hn::RebindToUnsigned<D>> noise,
                          D /* d */, uint16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> half;
  // A carry out of a NaN's bits could make a zero of it.
  const auto number = hn::RebindMask(du, hn::Eq(s, s));
  const auto sum =
      hn::Add(hn::BitCast(du, s), hn::IfThenElseZero(number, noise));
  const auto upper = hn::BitCast(di, hn::ShiftRight<16>(sum));
  hn::StoreU(hn::DemoteTo(half, upper), half, to);
}

// The unit of a group: a power of two, the upper bits of the float that it is.
// 0 for a group of zeros, infinity for one with an element that is not finite.
HWY_INLINE float Int16Unit(uint8_t exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23);
}

// Lanes(d) elements of a group, in units.
template <class D>
HWY_INLINE hn::Vec<D> LoadInt16(D d, const int16_t* from) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> half;
  return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(half, from)));
}

// How a group is rounded.
struct Int16Rounding {
  uint8_t exponent;  // of the unit
  float per_unit;    // one over the unit
};

// `largest` are the bits of the magnitude of a group's largest element. It is
// to become 2^14 units at least, 2^15 - 2^7 at most.
HWY_INLINE Int16Rounding RoundingOfGroup(uint32_t largest) {
  // More than 2^15 - 2^7 units: the next power of two.
  const uint32_t exponent = (largest + 0xFFFF) >> 23;
  // Below 2^-97: zeros.
  if (exponent < 30) return {0, 0.0f};
  if (exponent >= 255) return {255, 0.0f};
  return {static_cast<uint8_t>(exponent - 14),
          std::bit_cast<float>((127 + 127 + 14 - exponent) << 23)};
}

// Rounds up or down, each as likely as the other side is near: the units are
// the lower 16 bits. `noise` is of Int16Noise. What is a whole number of units
// stays.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundInt16(
    D d, hn::Vec<D> s, hn::Vec<D> per_unit,
    hn::Vec<hn::RebindToUnsigned<D>> noise) {
  const hn::RebindToUnsigned<D> du;
  // The last place of numbers near this is 2^-kInt16NoiseBits: added to it,
  // units are in fixed point.
  constexpr float kBase = 0x1.8p16f;
  const auto fixed = hn::MulAdd(s, per_unit, hn::Set(d, kBase));
  return hn::ShiftRight<kInt16NoiseBits>(
      hn::Add(hn::BitCast(du, fixed), noise));
}

template <class D>
HWY_INLINE void StoreInt16(hn::Vec<D> s, float per_unit,
                           hn::Vec<hn::RebindToUnsigned<D>> noise, D d,
                           int16_t* to) {
  const hn::Rebind<uint16_t, D> half;
  const auto units = RoundInt16(d, s, hn::Set(d, per_unit), noise);
  hn::StoreU(hn::TruncateTo(half, units), half,
             reinterpret_cast<uint16_t*>(to));
}

// The noise of a row, and what makes the base of RoundInt16, whose lowest bits
// after the shift are 2^15, vanish from them.
template <class DU>
HWY_INLINE hn::Vec<DU> Int16RowNoise(DU du, uint32_t row) {
  constexpr uint32_t kCarry = uint32_t{1} << (15 + kInt16NoiseBits);
  return hn::Or(hn::Set(du, row), hn::Set(du, kCarry));
}

// The noise of columns `columns` and up in a row of Int16RowNoise.
template <class DU>
HWY_INLINE hn::Vec<DU> Int16Noise(DU du, hn::Vec<DU> row,
                                  const uint32_t* columns) {
  return hn::Xor(hn::LoadU(du, columns), row);
}

// The bits of magnitudes: ordered as the magnitudes are, NaN being largest.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> MagnitudeBits(D /* d */,
                                                        hn::Vec<D> s) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(di, hn::Abs(s));
}

#if HWY_TARGET != HWY_SCALAR  // which has no vectors of four

// Of four groups.
using FourFloats = hn::FixedTag<float, 4>;
using FourInts = hn::FixedTag<int32_t, 4>;
using FourBytes = hn::FixedTag<uint8_t, 4>;

// The largest of lanes 0, 4, 8, ..., of lanes 1, 5, 9, ..., and so on.
template <class DI>
HWY_INLINE hn::Vec<FourInts> MaxOfFourths(DI di, hn::Vec<DI> v) {
  if constexpr (hn::MaxLanes(di) == 4) {
    return v;
  } else {
    const hn::Half<DI> half;
    return MaxOfFourths(
        half, hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// The largest lane of each of four vectors. One by one takes twice as many
// instructions, each waiting for the one before.
template <class DI, class Vec = hn::Vec<DI>>
HWY_INLINE hn::Vec<FourInts> MaxOfEach(DI di, Vec v0, Vec v1, Vec v2, Vec v3) {
  const hn::RepartitionToWide<DI> pairs;
  const auto v01 = hn::BitCast(pairs, hn::Max(hn::InterleaveLower(di, v0, v1),
                                              hn::InterleaveUpper(di, v0, v1)));
  const auto v23 = hn::BitCast(pairs, hn::Max(hn::InterleaveLower(di, v2, v3),
                                              hn::InterleaveUpper(di, v2, v3)));
  const auto lower = hn::BitCast(di, hn::InterleaveLower(pairs, v01, v23));
  const auto upper = hn::BitCast(di, hn::InterleaveUpper(pairs, v01, v23));
  return MaxOfFourths(di, hn::Max(lower, upper));
}

// Int16Rounding of four groups.
struct FourInt16Roundings {
  hn::Vec<FourBytes> exponents;
  hn::Vec<FourFloats> per_unit;
};

// RoundingOfGroup of four.
HWY_INLINE FourInt16Roundings RoundingOfFour(hn::Vec<FourInts> largest) {
  const FourInts di;
  const hn::RebindToUnsigned<FourInts> du;
  // The sum may be above 2^31.
  const auto sum = hn::Add(hn::BitCast(du, largest), hn::Set(du, 0xFFFF));
  const auto exponent = hn::BitCast(di, hn::ShiftRight<23>(sum));
  const auto some = hn::Gt(exponent, hn::Set(di, 29));
  const auto finite = hn::Lt(exponent, hn::Set(di, 255));
  const auto of_unit =
      hn::IfThenElseZero(some, hn::Sub(exponent, hn::Set(di, 14)));
  const auto per_unit =
      hn::ShiftLeft<23>(hn::Sub(hn::Set(di, 127 + 127 + 14), exponent));
  const auto bytes = hn::IfThenElse(finite, of_unit, hn::Set(di, 255));
  return {hn::TruncateTo(FourBytes(), hn::BitCast(du, bytes)),
          hn::BitCast(FourFloats(),
                      hn::IfThenElseZero(hn::And(some, finite), per_unit))};
}

// Int16Unit of four.
HWY_INLINE hn::Vec<FourFloats> UnitsOfFour(hn::Vec<FourBytes> exponents) {
  return hn::BitCast(FourFloats(),
                     hn::ShiftLeft<23>(hn::PromoteTo(FourInts(), exponents)));
}

// Two vectors, as StoreInt16 stores one.
template <class D, class VU = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE void StoreTwoInt16(D /* d */, VU lower, VU upper, int16_t* to) {
  const hn::Repartition<uint16_t, D> du16;
  hn::StoreU(
      hn::ConcatEven(du16, hn::BitCast(du16, upper), hn::BitCast(du16, lower)),
      du16, reinterpret_cast<uint16_t*>(to));
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_STATE_PACKED_ROWS_INL_H_
