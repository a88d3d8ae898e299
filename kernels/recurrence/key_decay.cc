#include "kernels/recurrence/key_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/key_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <bool kSplit>
struct KeyDecayRule {
  using Element = float;
  struct Row {
    float decay;
    float low;  // if kSplit
    float q;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay[i * decay_stride], kSplit ? low[i * decay_stride] : 0.0f,
            q[i], k[i], state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, v + j);
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
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, scale), o_j), d, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  size_t decay_stride;  // 1, or 0 where all keys share a decay
  const float* decay;
  const float* low;
  const float* q;
  const float* k;
  const float* v;
  float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void KeyDecayStepOfTarget(size_t K, size_t V, float scale, const float* decay,
                          const float* q, const float* k, const float* v,
                          float* state, float* o) {
  ForColumnBlocks(V, KeyDecayRule<false>{K, V, scale, 1, decay, nullptr, q, k,
                                         v, state, o});
}

void SplitDecayStepOfTarget(size_t K, size_t V, float scale,
                            size_t decay_stride, const float* decay,
                            const float* low, const float* q, const float* k,
                            const float* v, float* state, float* o) {
  ForColumnBlocks(V, KeyDecayRule<true>{K, V, scale, decay_stride, decay, low,
                                        q, k, v, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(KeyDecayStepOfTarget);
HWY_EXPORT(SplitDecayStepOfTarget);

void KeyDecayStep(size_t K, size_t V, float scale, const float* decay,
                  const float* q, const float* k, const float* v, float* state,
                  float* o) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepOfTarget)
  (K, V, scale, decay, q, k, v, state, o);
}

void SplitKeyDecayStep(size_t K, size_t V, float scale, const float* decay,
                       const float* decay_low, const float* q, const float* k,
                       const float* v, float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(SplitDecayStepOfTarget)
  (K, V, scale, 1, decay, decay_low, q, k, v, state, o);
}

void SplitScalarDecayStep(size_t K, size_t V, float scale, float decay,
                          float decay_low, const float* q, const float* k,
                          const float* v, float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(SplitDecayStepOfTarget)
  (K, V, scale, 0, &decay, &decay_low, q, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
