#include <algorithm>
#include <cstdint>

#include "kernels/recurrence/decay_steps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/full_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/state_columns-inl.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Fetched so many floats ahead: exponentials keep a core from running ahead to
// the next misses.
constexpr size_t kAhead = 1024;

// What so many columns contribute to exponents lies on the stack at a time.
constexpr size_t kColumnsAtOnce = 512;

// power (1 + more) old + added. Near one, where the power is 1, the decay is
// not rounded to a float: it would be off by 3e-8, and by as much at every
// token.
template <class D, class Vec>
HWY_INLINE Vec KeepAndAdd(D, Vec power, Vec more, Vec old, Vec added) {
  const Vec kept = hn::Mul(power, old);
  return hn::Add(kept, hn::MulAdd(more, kept, added));
}

#if HWY_TARGET <= HWY_AVX3

// 2^(i / 16) for 16 values of i, less i in the bits that it is added to below.
alignas(64) constexpr uint32_t kSixteenths[] = {
    0x3F800000, 0x3F7DAAC3, 0x3F7B95C2, 0x3F79C3D3, 0x3F7837F0, 0x3F76F532,
    0x3F75FED7, 0x3F75583F, 0x3F7504F3, 0x3F7508A4, 0x3F75672A, 0x3F76248C,
    0x3F7744FD, 0x3F78CCDF, 0x3F7AC0C7, 0x3F7D257D};

// e^(-rate step) with a table that a register holds: a third fewer instructions
// than ExpOfMinus. What only columns decide is computed once for all rows.
class ColumnDecays {
 public:
  ColumnDecays(size_t columns, const float* step) {
    ForVectors<float>(columns, [&](auto d, size_t j) HWY_ATTR {
      // In powers of two: step log2(e), as the sum of two floats, for the
      // product with the rate is not to be rounded before it is split.
      const auto log2e = hn::Set(d, 0x1.715476p+0f);
      const auto rest = hn::Set(d, 0x1.4ae0cp-26f);
      // Beyond, the product is no number.
      const auto s = hn::Min(hn::Set(d, 2e38f), hn::LoadU(d, step + j));
      const auto high = hn::Mul(s, log2e);
      const auto low = hn::MulAdd(s, rest, hn::MulSub(s, log2e, high));
      hn::StoreU(hn::Neg(high), d, high_ + j);
      hn::StoreU(hn::Neg(low), d, low_ + j);
      hn::StoreU(hn::Div(hn::Set(d, 87.33f), s), d, most_ + j);
    });
  }

  // Columns j and up of a row of the state, faded, with what is added to them.
  template <class D, class Vec>
  HWY_INLINE Vec Advance(D d, size_t j, Vec rate, Vec old, Vec added) const {
    const hn::RebindToUnsigned<D> du;
    // The sum with a number whose ulp is a sixteenth rounds to sixteenths,
    // which stand in its last bits.
    const Vec ulp = hn::Set(d, 0x1.8p19f);
    const Vec high = hn::LoadU(d, high_ + j);
    const Vec shifted = hn::MulAdd(rate, high, ulp);
    const Vec sixteenths = hn::Sub(shifted, ulp);
    Vec r = hn::MulSub(rate, high, sixteenths);
    r = hn::MulAdd(rate, hn::LoadU(d, low_ + j), r);
    // (2^r - 1) / r for |r| <= 1 / 32 within 2e-9, exactly ln 2 at 0.
    Vec p = hn::Set(d, 5.5504109e-2f);
    p = hn::MulAdd(p, r, hn::Set(d, 2.4023428e-1f));
    p = hn::MulAdd(p, r, hn::Set(d, 6.9314718e-1f));
    const auto bits = hn::BitCast(du, shifted);
    const Vec power =
        hn::BitCast(d, hn::Add(Sixteenths(du, hn::And(bits, hn::Set(du, 15))),
                               hn::ShiftLeft<19>(bits)));
    const auto gone = hn::Gt(rate, hn::LoadU(d, most_ + j));
    return KeepAndAdd(d, hn::IfThenZeroElse(gone, power),
                      hn::IfThenZeroElse(gone, hn::Mul(r, p)), old, added);
  }

 private:
  template <class DU>
  static HWY_INLINE hn::Vec<DU> Sixteenths(DU du, hn::Vec<DU> i) {
    if constexpr (hn::MaxLanes(DU()) == 16) {
      return hn::TableLookupLanes(hn::Load(du, kSixteenths),
                                  hn::IndicesFromVec(du, i));
    } else {
      const hn::RebindToSigned<DU> di;
      return hn::GatherIndex(du, kSixteenths, hn::BitCast(di, i));
    }
  }

  HWY_ALIGN float high_[kColumnsAtOnce];
  HWY_ALIGN float low_[kColumnsAtOnce];
  HWY_ALIGN float most_[kColumnsAtOnce];  // rates; beyond, decays are 0
};

#else

// The same where registers hold no such table.
class ColumnDecays {
 public:
  ColumnDecays(size_t /*columns*/, const float* step) : step_(step) {}

  template <class D, class Vec>
  HWY_INLINE Vec Advance(D d, size_t j, Vec rate, Vec old, Vec added) const {
    const auto decay = ExpOfMinus(d, hn::Mul(rate, hn::LoadU(d, step_ + j)));
    return KeepAndAdd(d, decay.power, decay.more, old, added);
  }

 private:
  const float* step_;
};

#endif

struct FullDecayRule {
  using Element = float;
  struct Row {
    float q;
    float k;
    const float* rate;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {token.q[i], token.k[i], rate + i * stride, state + i * stride};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, token.v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    float* const at = row.state + j;
    // hwy::Prefetch is for the first cache, whose few misses at a time would
    // set the pace.
    __builtin_prefetch(at + kAhead, 0, 2);
    const Vec s =
        decays.Advance(d, j, hn::LoadU(d, row.rate + j), hn::LoadU(d, at),
                       hn::Mul(hn::Set(d, row.k), v_j));
    hn::StoreU(s, d, at);
    o_j = hn::MulAdd(hn::Set(d, row.q), s, o_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, token.scale), o_j), d, token.o + j);
  }

  HeadToken token;  // of some columns of the head
  size_t stride;    // V of the head
  const float* rate;
  const ColumnDecays& decays;
  float* state;
};

void FullDecayStepOfTarget(const HeadToken& token, const float* rate,
                           const float* step, float* state) {
  const size_t V = token.V;
  for (size_t j = 0; j < V; j += kColumnsAtOnce) {
    HeadToken some = token;
    some.V = std::min(kColumnsAtOnce, V - j);
    some.v += j;
    some.o += j;
    const ColumnDecays decays(some.V, step + j);
    ForColumns(some.V, FullDecayRule{some, V, rate + j, decays, state + j});
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(FullDecayStepOfTarget);

void FullDecayStep(const HeadToken& token, const float* rate, const float* step,
                   float* state) {
  HWY_DYNAMIC_DISPATCH(FullDecayStepOfTarget)(token, rate, step, state);
}

}  // namespace steadystate
#endif  // HWY_ONCE
