#include "kernels/recurrence/growing_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/growing_sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// What both rules do with values and sums, in double.
template <class D>
HWY_INLINE hn::Vec<D> Promoted(D d, const float* v) {
  const hn::Rebind<float, D> d32;
  return hn::PromoteTo(d, hn::LoadU(d32, v));
}

template <class D>
HWY_INLINE void StoreScaled(D d, float scale, hn::Vec<D> sum, float* o) {
  const hn::Rebind<float, D> d32;
  const auto scaled = hn::Mul(hn::Set(d, static_cast<double>(scale)), sum);
  hn::StoreU(hn::DemoteTo(d32, scaled), d32, o);
}

template <bool kDecays>
struct StepRule {
  using Element = double;
  struct Row {
    double decay;  // if kDecays
    double q;
    double k;
    double* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {kDecays ? decay[i] : 1.0, static_cast<double>(q[i]),
            static_cast<double>(k[i]), state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return Promoted(d, v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    double* const at = row.state + j;
    Vec kept = hn::LoadU(d, at);
    if constexpr (kDecays) kept = hn::Mul(hn::Set(d, row.decay), kept);
    const Vec s = hn::MulAdd(hn::Set(d, row.k), v_j, kept);
    hn::StoreU(s, d, at);
    o_j = hn::MulAdd(hn::Set(d, row.q), s, o_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    StoreScaled(d, scale, o_j, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  const double* decay;
  const float* q;
  const float* k;
  const float* v;
  double* state;
  float* o;
};

struct ReadRule {
  using Element = double;
  struct Row {
    double q;
    const double* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {static_cast<double>(q[i]), state + i * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t) const {
    return hn::Zero(d);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec, Vec& o_j) const {
    o_j = hn::MulAdd(hn::Set(d, row.q), hn::LoadU(d, row.state + j), o_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    StoreScaled(d, scale, o_j, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  const float* q;
  const double* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void GrowingSumStepOfTarget(size_t K, size_t V, float scale,
                            const double* decay, const float* q, const float* k,
                            const float* v, double* state, float* o) {
  if (decay == nullptr) {
    ForColumnBlocks(V, StepRule<false>{K, V, scale, decay, q, k, v, state, o});
  } else {
    ForColumnBlocks(V, StepRule<true>{K, V, scale, decay, q, k, v, state, o});
  }
}

void GrowingSumReadOfTarget(size_t K, size_t V, float scale, const float* q,
                            const double* state, float* o) {
  ForColumnBlocks(V, ReadRule{K, V, scale, q, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(GrowingSumStepOfTarget);
HWY_EXPORT(GrowingSumReadOfTarget);

void GrowingSumStep(size_t K, size_t V, float scale, const double* decay,
                    const float* q, const float* k, const float* v,
                    double* state, float* o) {
  HWY_DYNAMIC_DISPATCH(GrowingSumStepOfTarget)
  (K, V, scale, decay, q, k, v, state, o);
}

void GrowingSumRead(size_t K, size_t V, float scale, const float* q,
                    const double* state, float* o) {
  HWY_DYNAMIC_DISPATCH(GrowingSumReadOfTarget)(K, V, scale, q, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
