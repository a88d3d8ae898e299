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

// Four vectors of value columns, held in registers over the loop on key rows,
// so that the state is the only stream through memory.
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
    const auto k = hn::Set(d, head.k[i]);
    const auto q = hn::Set(d, head.q[i]);
    const auto s0 = hn::MulAdd(decay, hn::LoadU(d, row), hn::Mul(k, v0));
    const auto s1 = hn::MulAdd(decay, hn::LoadU(d, row + N), hn::Mul(k, v1));
    const auto s2 =
        hn::MulAdd(decay, hn::LoadU(d, row + 2 * N), hn::Mul(k, v2));
    const auto s3 =
        hn::MulAdd(decay, hn::LoadU(d, row + 3 * N), hn::Mul(k, v3));
    hn::StoreU(s0, d, row);
    hn::StoreU(s1, d, row + N);
    hn::StoreU(s2, d, row + 2 * N);
    hn::StoreU(s3, d, row + 3 * N);
    o0 = hn::MulAdd(q, s0, o0);
    o1 = hn::MulAdd(q, s1, o1);
    o2 = hn::MulAdd(q, s2, o2);
    o3 = hn::MulAdd(q, s3, o3);
  }
  const auto scale = hn::Set(d, head.scale);
  hn::StoreU(hn::Mul(scale, o0), d, o);
  hn::StoreU(hn::Mul(scale, o1), d, o + N);
  hn::StoreU(hn::Mul(scale, o2), d, o + 2 * N);
  hn::StoreU(hn::Mul(scale, o3), d, o + 3 * N);
}

// One vector of value columns; a column's bits are those of FourVectors.
template <class D>
HWY_INLINE void OneVector(D d, const Head& head, const float* v, float* state,
                          float* o) {
  const auto v0 = hn::LoadU(d, v);
  auto o0 = hn::Zero(d);
  float* row = state;
  for (size_t i = 0; i < head.K; ++i, row += head.V) {
    const auto kv = hn::Mul(hn::Set(d, head.k[i]), v0);
    const auto s0 =
        hn::MulAdd(hn::Set(d, head.decay[i]), hn::LoadU(d, row), kv);
    hn::StoreU(s0, d, row);
    o0 = hn::MulAdd(hn::Set(d, head.q[i]), s0, o0);
  }
  hn::StoreU(hn::Mul(hn::Set(d, head.scale), o0), d, o);
}

void AdvanceHead(const Head& head, const float* v, float* state, float* o) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  size_t j = 0;
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
