// Rows of bf16 as float32 vectors and back. Include after foreach_target.h.

#if defined(STEADYSTATE_KERNELS_STATE_BF16_ROWS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_STATE_BF16_ROWS_INL_H_
#undef STEADYSTATE_KERNELS_STATE_BF16_ROWS_INL_H_
#else
#define STEADYSTATE_KERNELS_STATE_BF16_ROWS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

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

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_STATE_BF16_ROWS_INL_H_
