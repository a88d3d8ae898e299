#include "kernels/recurrence/full_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/full_decay.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kAhead = 512;

struct FullDecayRule {
  using Element = float;
  struct Row {
    float q;
    float k;
    const float* rate;
    float* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {q[i], k[i], rate + i * V, state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    float* const at = row.state + j;
    // Exponentials keep a core from running ahead to the next misses.
    hwy::Prefetch(at + kAhead);
    const Vec exponent =
        hn::Mul(hn::LoadU(d, row.rate + j), hn::LoadU(d, step + j));
    const Vec s = hn::MulAdd(ExpOfMinus(d, exponent), hn::LoadU(d, at),
                             hn::Mul(hn::Set(d, row.k), v_j));
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
  const float* rate;
  const float* step;
  const float* q;
  const float* k;
  const float* v;
  float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void FullDecayStepOfTarget(size_t K, size_t V, float scale, const float* rate,
                           const float* step, const float* q, const float* k,
                           const float* v, float* state, float* o) {
  ForColumnBlocks(V, FullDecayRule{K, V, scale, rate, step, q, k, v, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(FullDecayStepOfTarget);

void FullDecayStep(size_t K, size_t V, float scale, const float* rate,
                   const float* step, const float* q, const float* k,
                   const float* v, float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(FullDecayStepOfTarget)
  (K, V, scale, rate, step, q, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
