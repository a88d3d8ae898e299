// Blocks of 16-bit integers with a common unit as float32 vectors and back.
// Include after foreach_target.h.

#if defined(STEADYSTATE_KERNELS_STATE_INT16_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_STATE_INT16_BLOCKS_INL_H_
#undef STEADYSTATE_KERNELS_STATE_INT16_BLOCKS_INL_H_
#else
#define STEADYSTATE_KERNELS_STATE_INT16_BLOCKS_INL_H_
#endif

#include <bit>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/state/int16_matrix.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The unit of a block: a power of two, the upper bits of the float that it is.
// 0 for a block of zeros, infinity for one with an element that is not finite.
HWY_INLINE float Int16Unit(uint8_t exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23);
}

// Lanes(d) elements of a block, in units.
template <class D>
HWY_INLINE hn::Vec<D> LoadInt16(D d, const int16_t* from) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<int16_t, D> half;
  return hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(half, from)));
}

// How a block is rounded.
struct Int16Rounding {
  uint8_t exponent;  // of the unit
  float per_unit;    // one over the unit
};

// `largest` are the bits of the magnitude of a block's largest element. It is
// to become 2^14 units at least, 2^15 - 2^7 at most.
HWY_INLINE Int16Rounding RoundingOfBlock(uint32_t largest) {
  // More than 2^15 - 2^7 units: the next power of two.
  const uint32_t exponent = (largest + 0xFFFF) >> 23;
  // Below 2^-97: zeros.
  if (exponent < 30) return {0, 0.0f};
  if (exponent >= 255) return {255, 0.0f};
  return {static_cast<uint8_t>(exponent - 14),
          std::bit_cast<float>((127 + 127 + 14 - exponent) << 23)};
}

// Rounds up or down, each as likely as the other side is near. `noise` is of
// Int16Noise. What is a whole number of units stays.
template <class D>
HWY_INLINE void StoreInt16(hn::Vec<D> s, float per_unit,
                           hn::Vec<hn::RebindToUnsigned<D>> noise, D d,
                           int16_t* to) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint16_t, D> half;
  // The last place of numbers near this is 2^-kInt16NoiseBits: added to it,
  // units are in fixed point.
  constexpr float kBase = 0x1.8p16f;
  const auto fixed = hn::MulAdd(s, hn::Set(d, per_unit), hn::Set(d, kBase));
  const auto sum = hn::Add(hn::BitCast(du, fixed), noise);
  hn::StoreU(hn::TruncateTo(half, hn::ShiftRight<kInt16NoiseBits>(sum)), half,
             reinterpret_cast<uint16_t*>(to));
}

// The noise of columns `columns` and up in a row, and what makes the base of
// StoreInt16, whose lowest bits after the shift are 2^15, vanish from them.
template <class DU>
HWY_INLINE hn::Vec<DU> Int16Noise(DU du, uint32_t row,
                                  const uint32_t* columns) {
  constexpr uint32_t kCarry = uint32_t{1} << (15 + kInt16NoiseBits);
  return hn::Xor(hn::LoadU(du, columns), hn::Set(du, row | kCarry));
}

// The bits of magnitudes: ordered as the magnitudes are, NaN being largest.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> MagnitudeBits(D /* d */,
                                                        hn::Vec<D> s) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(di, hn::Abs(s));
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_STATE_INT16_BLOCKS_INL_H_
