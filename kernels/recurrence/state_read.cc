#include "kernels/recurrence/state_read.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/state_read.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/column_blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct ReadRule {
  using Element = float;
  struct Row {
    float q;
    const float* state;
  };
  HWY_INLINE Row row(size_t i) const { return {q[i], state + i * V}; }
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
    hn::StoreU(hn::Mul(hn::Set(d, scale), o_j), d, o + j);
  }

  size_t K;
  size_t V;
  float scale;
  const float* q;
  const float* state;
  float* o;
};

// Plain arguments, for the dispatch table is shared by all targets.
void ReadStateOfTarget(size_t K, size_t V, float scale, const float* q,
                       const float* state, float* o) {
  ForColumnBlocks(V, ReadRule{K, V, scale, q, state, o});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ReadStateOfTarget);

void ReadState(size_t K, size_t V, float scale, const float* q,
               const float* state, float* o) {
  HWY_DYNAMIC_DISPATCH(ReadStateOfTarget)(K, V, scale, q, state, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
