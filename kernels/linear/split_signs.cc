#include "kernels/linear/split_signs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/linear/split_signs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A lane is four bytes.
using DU = hn::CappedTag<uint32_t, kSplitGrain / 4>;
using VU = hn::Vec<DU>;

// Of each lane, the sum of its four bytes.
HWY_INLINE VU SumsOfFour(VU bytes) {
  const VU even = hn::Set(DU(), 0x00FF00FFu);
  const VU pairs =
      hn::Add(hn::And(bytes, even), hn::And(hn::ShiftRight<8>(bytes), even));
  return hn::Add(hn::And(pairs, hn::Set(DU(), 0xFFFFu)),
                 hn::ShiftRight<16>(pairs));
}

int32_t SplitSignsOfTarget(size_t n, const uint8_t* bytes, uint8_t* to) {
  const DU d;
  const size_t N = hn::Lanes(d);
  const auto* const from = reinterpret_cast<const uint32_t*>(bytes);
  auto* const split = reinterpret_cast<uint32_t*>(to);
  VU left_out = hn::Zero(d);
  for (size_t i = 0; i < n / 4; i += N) {
    const VU x = hn::LoadU(d, from + i);
    const VU negative = hn::ShiftRight<7>(hn::And(x, hn::Set(d, 0x80808080u)));
    const VU masks = hn::Sub(hn::ShiftLeft<8>(negative), negative);
    // No byte carries into the next, since none of x is -128.
    const VU magnitudes = hn::Add(hn::Xor(x, masks), negative);
    hn::StoreInterleaved2(magnitudes, masks, d, split + 2 * i);
    left_out = hn::Add(left_out, SumsOfFour(hn::And(magnitudes, masks)));
  }
  return static_cast<int32_t>(hn::GetLane(hn::SumOfLanes(d, left_out)));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(SplitSignsOfTarget);

int32_t SplitSigns(size_t n, const uint8_t* bytes, uint8_t* to) {
  return HWY_DYNAMIC_DISPATCH(SplitSignsOfTarget)(n, bytes, to);
}

}  // namespace steadystate
#endif  // HWY_ONCE
