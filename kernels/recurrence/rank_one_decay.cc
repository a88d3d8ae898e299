#include "kernels/recurrence/rank_one_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/rank_one_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// u = S^T a.
struct ReadRule {
  using Element = float;
  struct Row {
    float a;
    const float* state;
  };
  HWY_INLINE Row row(size_t i) const { return {a[i], state + i * V}; }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t) const {
    return hn::Zero(d);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec, Vec& u_j) const {
    u_j = hn::MulAdd(hn::Set(d, row.a), hn::LoadU(d, row.state + j), u_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec u_j) const {
    hn::StoreU(u_j, d, u + j);
  }

  size_t K;
  size_t V;
  const float* a;
  const float* state;
  float* u;
};

// S <- diag(decay) S + b u^T + k v^T, then o = scale * S^T q. u is read from
// where o goes.
struct UpdateRule {
  using Element = float;
  struct Row {
    float decay;
    float b;
    float q;
    float k;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {decay[i], b[i], q[i], k[i], state + i * V};
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
    const Vec added = hn::MulAdd(hn::Set(d, row.b), hn::LoadU(d, o + j), kv);
    const Vec s = hn::MulAdd(hn::Set(d, row.decay), hn::LoadU(d, at), added);
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
  const float* decay;
  const float* b;
  const float* q;
  const float* k;
  const float* v;
  float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void RankOneDecayStepOfTarget(size_t K, size_t V, float scale,
                              const float* decay, const float* a,
                              const float* b, const float* q, const float* k,
                              const float* v, float* state, float* o) {
  ForColumnBlocks(V, ReadRule{K, V, a, state, o});
  ForColumnBlocks(V, UpdateRule{K, V, scale, decay, b, q, k, v, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(RankOneDecayStepOfTarget);

void RankOneDecayStep(size_t K, size_t V, float scale, const float* decay,
                      const float* a, const float* b, const float* q,
                      const float* k, const float* v, float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(RankOneDecayStepOfTarget)
  (K, V, scale, decay, a, b, q, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
