#include "kernels/recurrence/decay_steps.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/decay_steps.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/state_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// What the rules below have in common.
struct StepRule {
  using Element = float;
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, token.v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, token.scale), o_j), d, token.o + j);
  }

  HeadToken token;
};

template <bool kSplit>
struct KeyDecayRule : StepRule {
  struct Row {
    float decay;
    float low;  // if kSplit
    float q;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    const size_t at = i * decay.stride;
    return {decay.high[at], kSplit ? decay.low[at] : 0.0f, token.q[i],
            token.k[i], state + i * token.V};
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    float* const at = row.state + j;
    const Vec old = hn::LoadU(d, at);
    Vec added = hn::Mul(hn::Set(d, row.k), v_j);
    if constexpr (kSplit) added = hn::MulAdd(hn::Set(d, row.low), old, added);
    const Vec s = hn::MulAdd(hn::Set(d, row.decay), old, added);
    hn::StoreU(s, d, at);
    o_j = hn::MulAdd(hn::Set(d, row.q), s, o_j);
  }

  Decays decay;
  float* state;
};

struct BonusDecayRule : StepRule {
  struct Row {
    float decay;
    float low;
    float bonus;
    float q;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay.High(i), decay.Low(i), bonus[i],
            token.q[i],    token.k[i],   state + i * token.V};
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    float* const at = row.state + j;
    const Vec kv = hn::Mul(hn::Set(d, row.k), v_j);
    const Vec s = hn::LoadU(d, at);
    const Vec seen = hn::MulAdd(hn::Set(d, row.bonus), kv, s);
    o_j = hn::MulAdd(hn::Set(d, row.q), seen, o_j);
    const Vec added = hn::MulAdd(hn::Set(d, row.low), s, kv);
    hn::StoreU(hn::MulAdd(hn::Set(d, row.decay), s, added), d, at);
  }

  Decays decay;
  const float* bonus;
  float* state;
};

struct OuterDecayRule : StepRule {
  struct Row {
    float decay;
    float low;
    float q;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay_k.High(i), decay_k.Low(i), token.q[i], token.k[i],
            state + i * token.V};
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

  Decays decay_k;
  Decays decay_v;
  float* state;
};

struct ComplexKeyDecayRule : StepRule {
  struct Row {
    float decay_re;
    float low_re;
    float decay_im;
    float low_im;
    float q;
    float k;
    float* re;
    float* im;
  };
  HWY_INLINE Row row(size_t i) const {
    float* const re = state + i * token.V;
    return {decay_re.High(i),
            decay_re.Low(i),
            decay_im.High(i),
            decay_im.Low(i),
            token.q[i],
            token.k[i],
            re,
            re + token.K * token.V};
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    const Vec a = hn::Set(d, row.decay_re);
    const Vec b = hn::Set(d, row.decay_im);
    const Vec re = hn::LoadU(d, row.re + j);
    const Vec im = hn::LoadU(d, row.im + j);
    const Vec a_low = hn::Set(d, row.low_re);
    const Vec b_low = hn::Set(d, row.low_im);
    const Vec kv = hn::Mul(hn::Set(d, row.k), v_j);
    const Vec low_re = hn::MulAdd(a_low, re, hn::NegMulAdd(b_low, im, kv));
    const Vec low_im = hn::MulAdd(a_low, im, hn::Mul(b_low, re));
    const Vec new_re = hn::MulAdd(a, re, hn::NegMulAdd(b, im, low_re));
    hn::StoreU(new_re, d, row.re + j);
    hn::StoreU(hn::MulAdd(a, im, hn::MulAdd(b, re, low_im)), d, row.im + j);
    o_j = hn::MulAdd(hn::Set(d, row.q), new_re, o_j);
  }

  Decays decay_re;
  Decays decay_im;
  float* state;
};

struct ReadRule : StepRule {
  struct Row {
    float q;
    const float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {token.q[i], state + i * token.V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t) const {
    return hn::Zero(d);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec, Vec& o_j) const {
    o_j = hn::MulAdd(hn::Set(d, row.q), hn::LoadU(d, row.state + j), o_j);
  }

  const float* state;
};

void KeyDecayStepOfTarget(const HeadToken& token, const Decays& decay,
                          float* state) {
  if (decay.low == nullptr) {
    ForColumns(token.V, KeyDecayRule<false>{{token}, decay, state});
  } else {
    ForColumns(token.V, KeyDecayRule<true>{{token}, decay, state});
  }
}

void BonusDecayStepOfTarget(const HeadToken& token, const Decays& decay,
                            const float* bonus, float* state) {
  ForColumns(token.V, BonusDecayRule{{token}, decay, bonus, state});
}

void OuterDecayStepOfTarget(const HeadToken& token, const Decays& decay_k,
                            const Decays& decay_v, float* state) {
  ForColumns(token.V, OuterDecayRule{{token}, decay_k, decay_v, state});
}

void ComplexKeyDecayStepOfTarget(const HeadToken& token, const Decays& decay_re,
                                 const Decays& decay_im, float* state) {
  ForColumns(token.V, ComplexKeyDecayRule{{token}, decay_re, decay_im, state});
}

void ReadStateOfTarget(const HeadToken& token, const float* state) {
  ForColumns(token.V, ReadRule{{token}, state});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(KeyDecayStepOfTarget);
HWY_EXPORT(BonusDecayStepOfTarget);
HWY_EXPORT(OuterDecayStepOfTarget);
HWY_EXPORT(ComplexKeyDecayStepOfTarget);
HWY_EXPORT(ReadStateOfTarget);

void KeyDecayStep(const HeadToken& token, const Decays& decay, float* state) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepOfTarget)(token, decay, state);
}

void BonusDecayStep(const HeadToken& token, const Decays& decay,
                    const float* bonus, float* state) {
  HWY_DYNAMIC_DISPATCH(BonusDecayStepOfTarget)(token, decay, bonus, state);
}

void OuterDecayStep(const HeadToken& token, const Decays& decay_k,
                    const Decays& decay_v, float* state) {
  HWY_DYNAMIC_DISPATCH(OuterDecayStepOfTarget)(token, decay_k, decay_v, state);
}

void ComplexKeyDecayStep(const HeadToken& token, const Decays& decay_re,
                         const Decays& decay_im, float* state) {
  HWY_DYNAMIC_DISPATCH(ComplexKeyDecayStepOfTarget)
  (token, decay_re, decay_im, state);
}

void ReadState(const HeadToken& token, const float* state) {
  HWY_DYNAMIC_DISPATCH(ReadStateOfTarget)(token, state);
}

}  // namespace steadystate
#endif  // HWY_ONCE
