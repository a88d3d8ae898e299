#include "kernels/state/rounding_noise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/state/rounding_noise.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// `bits` bits of each of the counters `n` under a seed. The multipliers and
// shifts are those of lowbias32 (Wellons 2018), whose output bits flip with a
// probability within 0.1 % of a half when an input bit does.
template <class D, class V>
HWY_INLINE V HashOf(D d, V n, uint64_t seed, int bits) {
  V x = hn::Add(hn::Mul(n, hn::Set(d, 0x9E3779B9u)),
                hn::Set(d, static_cast<uint32_t>(seed)));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(d, 0x7FEB352Du));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Mul(x, hn::Set(d, 0x846CA68Bu));
  x = hn::Xor(x, hn::Set(d, static_cast<uint32_t>(seed >> 32)));
  return hn::ShiftRightSame(x, 32 - bits);
}

// Those of the counters first, first + 1, ...
void HashesOfTarget(uint64_t seed, int bits, uint32_t first, size_t count,
                    uint32_t* to) {
  const hn::ScalableTag<uint32_t> d;
  const hn::CappedTag<uint32_t, 1> d1;
  const size_t N = hn::Lanes(d);
  auto counters = hn::Iota(d, first);
  size_t n = 0;
  for (; n + N <= count; n += N) {
    hn::StoreU(HashOf(d, counters, seed, bits), d, to + n);
    counters = hn::Add(counters, hn::Set(d, static_cast<uint32_t>(N)));
  }
  for (; n < count; ++n) {
    const auto counter = hn::Set(d1, first + static_cast<uint32_t>(n));
    hn::StoreU(HashOf(d1, counter, seed, bits), d1, to + n);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {
namespace {

HWY_EXPORT(HashesOfTarget);

// The finalizer of SplitMix64 (Steele et al. 2014), a bijection.
uint64_t Mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

RoundingNoise MakeRoundingNoise(RoundingPlace place, int bits, size_t rows,
                                size_t columns, uint32_t* row_noise,
                                uint32_t* column_noise) {
  const uint64_t seed = Mixed(Mixed(place.position) + place.offset);
  const auto hashes = HWY_DYNAMIC_DISPATCH(HashesOfTarget);
  hashes(seed, bits, 0, rows, row_noise);
  hashes(seed, bits, static_cast<uint32_t>(rows), columns, column_noise);
  return {row_noise, column_noise};
}

}  // namespace steadystate
#endif  // HWY_ONCE
