#include "kernels/recurrence/growing_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/growing_sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/state_columns-inl.h"

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
    return {kDecays ? decay[i] : 1.0, static_cast<double>(token.q[i]),
            static_cast<double>(token.k[i]), state + i * token.V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return Promoted(d, token.v + j);
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
    StoreScaled(d, token.scale, o_j, token.o + j);
  }

  HeadToken token;
  const double* decay;
  double* state;
};

struct ReadRule {
  using Element = double;
  struct Row {
    double q;
    const double* state;
  };
  HWY_INLINE Row row(size_t i) const {
    return {static_cast<double>(token.q[i]), state + i * token.V};
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
    StoreScaled(d, token.scale, o_j, token.o + j);
  }

  HeadToken token;
  const double* state;
};

void GrowingSumStepOfTarget(const HeadToken& token, const double* decay,
                            double* state) {
  if (decay == nullptr) {
    ForColumns(token.V, StepRule<false>{token, decay, state});
  } else {
    ForColumns(token.V, StepRule<true>{token, decay, state});
  }
}

void GrowingSumReadOfTarget(const HeadToken& token, const double* state) {
  ForColumns(token.V, ReadRule{token, state});
}

void NarrowStateOfTarget(size_t n, const double* state, float* narrow) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> d32;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) {
    hn::StoreU(hn::DemoteTo(d32, hn::LoadU(d, state + i)), d32, narrow + i);
  }
  for (; i < n; ++i) narrow[i] = static_cast<float>(state[i]);
}

template <class D>
HWY_INLINE void AddVector(D d, double kept, const float* added, double* state) {
  const hn::Rebind<float, D> d32;
  const auto more = hn::PromoteTo(d, hn::LoadU(d32, added));
  hn::StoreU(hn::MulAdd(hn::Set(d, kept), hn::LoadU(d, state), more), d, state);
}

void AddToStateOfTarget(size_t n, double kept, const float* added,
                        double* state) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) AddVector(d, kept, added + i, state + i);
  for (; i < n; ++i) AddVector(d1, kept, added + i, state + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(GrowingSumStepOfTarget);
HWY_EXPORT(GrowingSumReadOfTarget);
HWY_EXPORT(NarrowStateOfTarget);
HWY_EXPORT(AddToStateOfTarget);

void GrowingSumStep(const HeadToken& token, const double* decay,
                    double* state) {
  HWY_DYNAMIC_DISPATCH(GrowingSumStepOfTarget)(token, decay, state);
}

void GrowingSumRead(const HeadToken& token, const double* state) {
  HWY_DYNAMIC_DISPATCH(GrowingSumReadOfTarget)(token, state);
}

void NarrowState(size_t n, const double* state, float* narrow) {
  HWY_DYNAMIC_DISPATCH(NarrowStateOfTarget)(n, state, narrow);
}

void AddToState(size_t n, double kept, const float* added, double* state) {
  HWY_DYNAMIC_DISPATCH(AddToStateOfTarget)(n, kept, added, state);
}

}  // namespace steadystate
#endif  // HWY_ONCE
