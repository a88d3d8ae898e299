#include "kernels/recurrence/rank_one_decay.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrence/rank_one_decay.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/recurrence/state_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kLine = 64 / sizeof(float);
// Heads so small need no help: the CPU by itself reads as far ahead.
constexpr size_t kSmallHead = size_t{8} << 10;

// Some neighbouring columns of a head.
struct Columns {
  size_t count;
  const float* state;
};

// Fetches what the two passes over some columns come to next. All of it is
// asked for, half during either pass, so that memory never waits: a core that
// reads what lies in its caches, as the second pass does, asks memory for
// nothing.
class ReadAhead {
 public:
  // Rows are `stride` floats apart, of these columns and the next.
  ReadAhead(Columns now, Columns next, size_t K, size_t stride)
      : from_(next.state), stride_(stride), half_(next.count / 2) {
    const bool small = K * now.count * sizeof(float) <= kSmallHead;
    // Nothing is fetched where all is there.
    if (next.state != nullptr && !small) return;
    from_ = now.state;
    stride_ = half_ = 0;
  }

  // Where a half row begins, the halves being counted in their order.
  HWY_INLINE const float* HalfRow(size_t i) const {
    return from_ + i / 2 * stride_ + i % 2 * half_;
  }

  // To be called for all columns j of a row with a half row.
  static HWY_INLINE void Fetch(const float* half_row, size_t j) {
    // hwy::Prefetch is for the first cache, which has no room for so much.
    if (j % (2 * kLine) == 0) __builtin_prefetch(half_row + j / 2, 0, 2);
  }

 private:
  const float* from_;
  size_t stride_;
  size_t half_;
};

// u = S^T a, stored where o goes.
struct ReadRule {
  using Element = float;
  struct Row {
    float a;
    const float* state;
    const float* next;
  };
  HWY_INLINE Row row(size_t i) const {
    return {a[i], state + i * stride, ahead.HalfRow(i)};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t) const {
    return hn::Zero(d);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec, Vec& u_j) const {
    ReadAhead::Fetch(row.next, j);
    u_j = hn::MulAdd(hn::Set(d, row.a), hn::LoadU(d, row.state + j), u_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec u_j) const {
    hn::StoreU(u_j, d, token.o + j);
  }

  HeadToken token;  // of some columns of the head
  size_t stride;    // V of the head
  const float* a;
  const float* state;
  ReadAhead ahead;
};

// S <- diag(decay) S + b u^T + k v^T, then o = scale * S^T q. u is read from
// where o goes.
template <bool kSplit>
struct UpdateRule {
  using Element = float;
  struct Row {
    float decay;
    float low;  // if kSplit
    float b;
    float q;
    float k;
    float* state;
    const float* next;
  };
  HWY_INLINE Row row(size_t i) const {
    const size_t at = i * decay.stride;
    return {decay.high[at],
            kSplit ? decay.low[at] : 0.0f,
            b[i],
            token.q[i],
            token.k[i],
            state + i * stride,
            ahead.HalfRow(token.K + i)};
  }
  template <class D>
  HWY_INLINE hn::Vec<D> Column(D d, size_t j) const {
    return hn::LoadU(d, token.v + j);
  }
  template <class D, class Vec>
  HWY_INLINE void Advance(D d, const Row& row, size_t j, Vec v_j,
                          Vec& o_j) const {
    ReadAhead::Fetch(row.next, j);
    float* const at = row.state + j;
    const Vec old = hn::LoadU(d, at);
    const Vec kv = hn::Mul(hn::Set(d, row.k), v_j);
    Vec added = hn::MulAdd(hn::Set(d, row.b), hn::LoadU(d, token.o + j), kv);
    if constexpr (kSplit) added = hn::MulAdd(hn::Set(d, row.low), old, added);
    const Vec s = hn::MulAdd(hn::Set(d, row.decay), old, added);
    hn::StoreU(s, d, at);
    o_j = hn::MulAdd(hn::Set(d, row.q), s, o_j);
  }
  template <class D, class Vec>
  HWY_INLINE void Finish(D d, size_t j, Vec o_j) const {
    hn::StoreU(hn::Mul(hn::Set(d, token.scale), o_j), d, token.o + j);
  }

  HeadToken token;  // of some columns of the head
  size_t stride;    // V of the head
  Decays decay;
  const float* b;
  float* state;
  ReadAhead ahead;
};

// So many columns are read and updated before the next: up to 256 keys of them
// fit, with those that are fetched meanwhile, into a second cache of 1 MiB.
constexpr size_t kColumnsAtOnce = 512;

void RankOneDecayStepOfTarget(const HeadToken& token, const Decays& decay,
                              const RankOne& change, float* state,
                              const float* next) {
  const size_t V = token.V;
  for (size_t j = 0; j < V; j += kColumnsAtOnce) {
    HeadToken some = token;
    some.V = std::min(kColumnsAtOnce, V - j);
    some.v += j;
    some.o += j;
    const size_t after = j + some.V;
    const Columns follow =
        after < V ? Columns{std::min(kColumnsAtOnce, V - after), state + after}
                  : Columns{std::min(kColumnsAtOnce, V), next};
    const ReadAhead ahead({some.V, state + j}, follow, token.K, V);
    ForColumns(some.V, ReadRule{some, V, change.a, state + j, ahead});
    if (decay.low == nullptr) {
      ForColumns(some.V,
                 UpdateRule<false>{some, V, decay, change.b, state + j, ahead});
    } else {
      ForColumns(some.V,
                 UpdateRule<true>{some, V, decay, change.b, state + j, ahead});
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(RankOneDecayStepOfTarget);

void RankOneDecayStep(const HeadToken& token, const Decays& decay,
                      const RankOne& change, float* state, const float* next) {
  HWY_DYNAMIC_DISPATCH(RankOneDecayStepOfTarget)
  (token, decay, change, state, next);
}

}  // namespace steadystate
#endif  // HWY_ONCE
