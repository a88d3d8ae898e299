#include "kernels/recurrence/key_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/key_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// What all value columns of one head share.
struct Head {
  size_t K;
  size_t V;  // also the distance of two state rows
  float scale;
  const float* decay;
  const float* q;
  const float* k;
};

// One vector of state elements and its share of the sum over key rows. That a
// column's bits are the same in every block below rests on this.
template <class D, class Vec>
HWY_INLINE void Advance(D d, Vec decay, Vec q, Vec k, Vec v, float* state,
                        Vec& o) {
  const Vec s = hn::MulAdd(decay, hn::LoadU(d, state), hn::Mul(k, v));
  hn::StoreU(s, d, state);
  o = hn::MulAdd(q, s, o);
}

// Blocks of value columns, in registers over the loop on key rows, so that the
// state is the only stream through memory. The wider a block, the longer the
// contiguous pieces of that stream: eight vectors are half again as fast from
// DRAM as four, and all that 16 registers bear.
template <class D>
HWY_INLINE void EightVectors(D d, const Head& head, const float* v,
                             float* state, float* o) {
  const size_t N = hn::Lanes(d);
  const auto v0 = hn::LoadU(d, v);
  const auto v1 = hn::LoadU(d, v + N);
  const auto v2 = hn::LoadU(d, v + 2 * N);
  const auto v3 = hn::LoadU(d, v + 3 * N);
  const auto v4 = hn::LoadU(d, v + 4 * N);
  const auto v5 = hn::LoadU(d, v + 5 * N);
  const auto v6 = hn::LoadU(d, v + 6 * N);
  const auto v7 = hn::LoadU(d, v + 7 * N);
  auto o0 = hn::Zero(d);
  auto o1 = hn::Zero(d);
  auto o2 = hn::Zero(d);
  auto o3 = hn::Zero(d);
  auto o4 = hn::Zero(d);
  auto o5 = hn::Zero(d);
  auto o6 = hn::Zero(d);
  auto o7 = hn::Zero(d);
  float* row = state;
  for (size_t i = 0; i < head.K; ++i, row += head.V) {
    const auto decay = hn::Set(d, head.decay[i]);
    const auto q = hn::Set(d, head.q[i]);
    const auto k = hn::Set(d, head.k[i]);
    Advance(d, decay, q, k, v0, row, o0);
    Advance(d, decay, q, k, v1, row + N, o1);
    Advance(d, decay, q, k, v2, row + 2 * N, o2);
    Advance(d, decay, q, k, v3, row + 3 * N, o3);
    Advance(d, decay, q, k, v4, row + 4 * N, o4);
    Advance(d, decay, q, k, v5, row + 5 * N, o5);
    Advance(d, decay, q, k, v6, row + 6 * N, o6);
    Advance(d, decay, q, k, v7, row + 7 * N, o7);
  }
  const auto scale = hn::Set(d, head.scale);
  hn::StoreU(hn::Mul(scale, o0), d, o);
  hn::StoreU(hn::Mul(scale, o1), d, o + N);
  hn::StoreU(hn::Mul(scale, o2), d, o + 2 * N);
  hn::StoreU(hn::Mul(scale, o3), d, o + 3 * N);
  hn::StoreU(hn::Mul(scale, o4), d, o + 4 * N);
  hn::StoreU(hn::Mul(scale, o5), d, o + 5 * N);
  hn::StoreU(hn::Mul(scale, o6), d, o + 6 * N);
  hn::StoreU(hn::Mul(scale, o7), d, o + 7 * N);
}

template <class D>
HWY_INLINE void FourVectors(D d, const Head& head, const float* v, float* state,
                            float* o) {
  const size_t N = hn::Lanes(d);
  const auto v0 = hn::LoadU(d, v);
  const auto v1 = hn::LoadU(d, v + N);
  const auto v2 = hn::LoadU(d, v + 2 * N);
  const auto v3 = hn::LoadU(d, v + 3 * N);
  auto o0 = hn::Zero(d);
  auto o1 = hn::Zero(d);
  auto o2 = hn::Zero(d);
  auto o3 = hn::Zero(d);
  float* row = state;
  for (size_t i = 0; i < head.K; ++i, row += head.V) {
    const auto decay = hn::Set(d, head.decay[i]);
    const auto q = hn::Set(d, head.q[i]);
    const auto k = hn::Set(d, head.k[i]);
    Advance(d, decay, q, k, v0, row, o0);
    Advance(d, decay, q, k, v1, row + N, o1);
    Advance(d, decay, q, k, v2, row + 2 * N, o2);
    Advance(d, decay, q, k, v3, row + 3 * N, o3);
  }
  const auto scale = hn::Set(d, head.scale);
  hn::StoreU(hn::Mul(scale, o0), d, o);
  hn::StoreU(hn::Mul(scale, o1), d, o + N);
  hn::StoreU(hn::Mul(scale, o2), d, o + 2 * N);
  hn::StoreU(hn::Mul(scale, o3), d, o + 3 * N);
}

template <class D>
HWY_INLINE void OneVector(D d, const Head& head, const float* v, float* state,
                          float* o) {
  const auto v0 = hn::LoadU(d, v);
  auto o0 = hn::Zero(d);
  float* row = state;
  for (size_t i = 0; i < head.K; ++i, row += head.V) {
    const auto decay = hn::Set(d, head.decay[i]);
    const auto q = hn::Set(d, head.q[i]);
    const auto k = hn::Set(d, head.k[i]);
    Advance(d, decay, q, k, v0, row, o0);
  }
  const auto scale = hn::Set(d, head.scale);
  hn::StoreU(hn::Mul(scale, o0), d, o);
}

void AdvanceHead(const Head& head, const float* v, float* state, float* o) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  size_t j = 0;
  for (; j + 8 * N <= head.V; j += 8 * N) {
    EightVectors(d, head, v + j, state + j, o + j);
  }
  for (; j + 4 * N <= head.V; j += 4 * N) {
    FourVectors(d, head, v + j, state + j, o + j);
  }
  for (; j + N <= head.V; j += N) OneVector(d, head, v + j, state + j, o + j);
  for (; j + N4 <= head.V; j += N4) {
    OneVector(d4, head, v + j, state + j, o + j);
  }
  for (; j < head.V; ++j) OneVector(d1, head, v + j, state + j, o + j);
}

// Plain arguments, for the dispatch table is shared by all targets.
void KeyDecayStepOfTarget(size_t K, size_t V, float scale, const float* decay,
                          const float* q, const float* k, const float* v,
                          float* state, float* o) {
  AdvanceHead({K, V, scale, decay, q, k}, v, state, o);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(KeyDecayStepOfTarget);

void KeyDecayStep(size_t K, size_t V, float scale, const float* decay,
                  const float* q, const float* k, const float* v, float* state,
                  float* o) {
  HWY_DYNAMIC_DISPATCH(KeyDecayStepOfTarget)
  (K, V, scale, decay, q, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
