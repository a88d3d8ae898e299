#include "kernels/recurrence/outer_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/outer_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct OuterDecayRule {
  using Element = float;
  struct Row {
    float decay;
    float low;
    float q;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay_k.high[i], decay_k.Low(i), q[i], k[i], state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    float* const at = row.state + j;
    // One decay after the other: their product would be off by the same half
    // ulp at every step, which a state that forgets little adds up. What the
    // first one's product with the state loses is kept, where there are fused
    // instructions. The columns' own come from cache, for registers are taken.
    const Vec old = hn::LoadU(d, at);
    const Vec decay_j = hn::LoadU(d, decay_v.high + j);
    const Vec kept = hn::Mul(decay_j, old);
    Vec lost = hn::MulSub(decay_j, old, kept);
    if (decay_v.low != nullptr) {
      lost = hn::MulAdd(hn::LoadU(d, decay_v.low + j), old, lost);
    }
    const Vec decay = hn::Set(d, row.decay);
    Vec added = hn::Mul(hn::Set(d, row.k), v_j);
    added = hn::MulAdd(decay, lost, added);
    added = hn::MulAdd(hn::Set(d, row.low), kept, added);
    const Vec s = hn::MulAdd(decay, kept, added);
    hn::StoreU(s, d, at);
    o_j = hn::MulAdd(hn::Set(d, row.q), s, o_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, scale), o_j), d, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  Decays decay_k;
  Decays decay_v;
  const float* q;
  const float* k;
  const float* v;
  float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void OuterDecayStepOfTarget(size_t K, size_t V, float scale, Decays decay_k,
                            Decays decay_v, const float* q, const float* k,
                            const float* v, float* state, float* o) {
  ForColumnBlocks(
      V, OuterDecayRule{K, V, scale, decay_k, decay_v, q, k, v, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(OuterDecayStepOfTarget);

void OuterDecayStep(size_t K, size_t V, float scale, Decays decay_k,
                    Decays decay_v, const float* q, const float* k,
                    const float* v, float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(OuterDecayStepOfTarget)
  (K, V, scale, decay_k, decay_v, q, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
