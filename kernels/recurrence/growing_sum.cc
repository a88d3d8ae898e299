#include "kernels/recurrence/growing_sum.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/growing_sum.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Head {
  size_t K;
  size_t V;  // also the distance of two state rows
  float scale;
  const double* decay;  // or null
  const float* q;
  const float* k;
};

// What a key row does to its state elements, all columns alike.
template <class D>
struct Row {
  hn::Vec<D> decay, k, q;
  bool decays;
};

template <class D>
HWY_INLINE Row<D> RowOf(D d, const Head& head, size_t i) {
  const bool decays = head.decay != nullptr;
  return {hn::Set(d, decays ? head.decay[i] : 1.0),
          hn::Set(d, static_cast<double>(head.k[i])),
          hn::Set(d, static_cast<double>(head.q[i])), decays};
}

// One vector of state elements and its share of the sum over key rows.
template <class D>
HWY_INLINE void Advance(D d, const Row<D>& row, hn::Vec<D> v, double* state,
                        hn::Vec<D>& o) {
  const auto old = hn::LoadU(d, state);
  const auto kept = row.decays ? hn::Mul(row.decay, old) : old;
  const auto s = hn::MulAdd(row.k, v, kept);
  hn::StoreU(s, d, state);
  o = hn::MulAdd(row.q, s, o);
}

template <class D>
HWY_INLINE hn::Vec<D> Column(D d, const float* v) {
  const hn::Rebind<float, D> d32;
  return hn::PromoteTo(d, hn::LoadU(d32, v));
}

template <class D>
HWY_INLINE void Finish(D d, float scale, hn::Vec<D> sum, float* o) {
  const hn::Rebind<float, D> d32;
  const auto scaled = hn::Mul(hn::Set(d, static_cast<double>(scale)), sum);
  hn::StoreU(hn::DemoteTo(d32, scaled), d32, o);
}

template <class D>
HWY_INLINE void FourVectors(D d, const Head& head, const float* v,
                            double* state, float* o) {
  const size_t N = hn::Lanes(d);
  const auto v0 = Column(d, v);
  const auto v1 = Column(d, v + N);
  const auto v2 = Column(d, v + 2 * N);
  const auto v3 = Column(d, v + 3 * N);
  auto o0 = hn::Zero(d);
  auto o1 = hn::Zero(d);
  auto o2 = hn::Zero(d);
  auto o3 = hn::Zero(d);
  for (size_t i = 0; i < head.K; ++i, state += head.V) {
    const Row<D> row = RowOf(d, head, i);
    Advance(d, row, v0, state, o0);
    Advance(d, row, v1, state + N, o1);
    Advance(d, row, v2, state + 2 * N, o2);
    Advance(d, row, v3, state + 3 * N, o3);
  }
  Finish(d, head.scale, o0, o);
  Finish(d, head.scale, o1, o + N);
  Finish(d, head.scale, o2, o + 2 * N);
  Finish(d, head.scale, o3, o + 3 * N);
}

template <class D>
HWY_INLINE void OneVector(D d, const Head& head, const float* v, double* state,
                          float* o) {
  const auto v0 = Column(d, v);
  auto o0 = hn::Zero(d);
  for (size_t i = 0; i < head.K; ++i, state += head.V) {
    Advance(d, RowOf(d, head, i), v0, state, o0);
  }
  Finish(d, head.scale, o0, o);
}

// Plain arguments, for the dispatch table is shared by all targets.
void GrowingSumStepOfTarget(size_t K, size_t V, float scale,
                            const double* decay, const float* q, const float* k,
                            const float* v, double* state, float* o) {
  const Head head = {K, V, scale, decay, q, k};
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t j = 0;
  for (; j + 4 * N <= V; j += 4 * N) {
    FourVectors(d, head, v + j, state + j, o + j);
  }
  for (; j + N <= V; j += N) OneVector(d, head, v + j, state + j, o + j);
  for (; j < V; ++j) OneVector(d1, head, v + j, state + j, o + j);
}

template <class D>
HWY_INLINE void ReadVector(D d, size_t K, size_t V, float scale, const float* q,
                           const double* state, float* o) {
  auto sum = hn::Zero(d);
  for (size_t i = 0; i < K; ++i, state += V) {
    const auto q_i = hn::Set(d, static_cast<double>(q[i]));
    sum = hn::MulAdd(q_i, hn::LoadU(d, state), sum);
  }
  Finish(d, scale, sum, o);
}

void GrowingSumReadOfTarget(size_t K, size_t V, float scale, const float* q,
                            const double* state, float* o) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t j = 0;
  for (; j + N <= V; j += N) ReadVector(d, K, V, scale, q, state + j, o + j);
  for (; j < V; ++j) ReadVector(d1, K, V, scale, q, state + j, o + j);
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
