#include "kernels/recurrence/bonus_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/bonus_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct BonusDecayRule {
  using Element = float;
  struct Row {
    float decay;
    float low;
    float bonus;
    float r;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay.high[i], decay.Low(i), bonus[i], r[i], k[i], state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    float* const at = row.state + j;
    const Vec kv = hn::Mul(hn::Set(d, row.k), v_j);
    const Vec s = hn::LoadU(d, at);
    const Vec seen = hn::MulAdd(hn::Set(d, row.bonus), kv, s);
    o_j = hn::MulAdd(hn::Set(d, row.r), seen, o_j);
    const Vec added = hn::MulAdd(hn::Set(d, row.low), s, kv);
    hn::StoreU(hn::MulAdd(hn::Set(d, row.decay), s, added), d, at);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(o_j, d, o + j);
  }

  size_t K;
  size_t V;
  Decays decay;
  const float* bonus;
  const float* r;
  const float* k;
  const float* v;
  float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void BonusDecayStepOfTarget(size_t K, size_t V, Decays decay,
                            const float* bonus, const float* r, const float* k,
                            const float* v, float* state, float* o) {
  ForColumnBlocks(V, BonusDecayRule{K, V, decay, bonus, r, k, v, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(BonusDecayStepOfTarget);

void BonusDecayStep(size_t K, size_t V, Decays decay, const float* bonus,
                    const float* r, const float* k, const float* v,
                    float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(BonusDecayStepOfTarget)
  (K, V, decay, bonus, r, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
