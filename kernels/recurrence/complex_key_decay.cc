#include "kernels/recurrence/complex_key_decay.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/complex_key_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct ComplexKeyDecayRule {
  using Element = float;
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
    float* const re = state + i * V;
    return {decay_re.high[i],
            decay_re.Low(i),
            decay_im.high[i],
            decay_im.Low(i),
            q[i],
            k[i],
            re,
            re + K * V};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, v + j);
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
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, scale), o_j), d, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  Decays decay_re;
  Decays decay_im;
  const float* q;
  const float* k;
  const float* v;
  float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void ComplexKeyDecayStepOfTarget(size_t K, size_t V, float scale,
                                 Decays decay_re, Decays decay_im,
                                 const float* q, const float* k, const float* v,
                                 float* state, float* o) {
  ForColumnBlocks(V, ComplexKeyDecayRule{K, V, scale, decay_re, decay_im, q, k,
                                         v, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ComplexKeyDecayStepOfTarget);

void ComplexKeyDecayStep(size_t K, size_t V, float scale, Decays decay_re,
                         Decays decay_im, const float* q, const float* k,
                         const float* v, float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(ComplexKeyDecayStepOfTarget)
  (K, V, scale, decay_re, decay_im, q, k, v, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
