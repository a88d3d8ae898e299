#include "kernels/chunk/key_decay_chunk.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/chunk/key_decay_chunk.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/chunk/forward_substitution-inl.h"
#include "kernels/chunk/matrix_product-inl.h"
#include "kernels/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Channels c and up of all queries, faded from the start of the chunk.
template <class D>
HWY_INLINE void FadeQueries(D d, const KeyDecayRead& r, size_t c, float* to) {
  auto product = hn::Set(d, 1.0f);
  for (size_t i = 0; i < r.L; ++i) {
    const auto q = hn::LoadU(d, r.q.At(i) + c);
    const auto faded = hn::Mul(product, hn::LoadU(d, r.alpha.At(i) + c));
    const auto read = r.bonus == nullptr ? faded : product;
    hn::StoreU(hn::Mul(q, read), d, to + i * r.K + c);
    product = faded;
  }
}

// What n tokens from i on see of one before them, a few tokens at a time: its
// key fades from token to token, where it lies.
template <class D>
HWY_INLINE hn::Vec<D> FadeAndSee(D d, const KeyDecayRead& r, size_t i, size_t c,
                                 hn::Vec<D>& key, hn::Vec<D> sum) {
  const auto alpha = hn::LoadU(d, r.alpha.At(i) + c);
  const auto q = hn::LoadU(d, r.q.At(i) + c);
  if (r.bonus == nullptr) key = hn::Mul(key, alpha);
  sum = hn::MulAdd(q, key, sum);
  if (r.bonus != nullptr) key = hn::Mul(key, alpha);
  return sum;
}

template <class D>
HWY_INLINE void SeeByFour(D d, const KeyDecayRead& r, size_t i, float* key,
                          float* weights) {
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  auto sum2 = hn::Zero(d);
  auto sum3 = hn::Zero(d);
  size_t c = 0;
  for (; c + N <= r.K; c += N) {
    auto k = hn::LoadU(d, key + c);
    sum0 = FadeAndSee(d, r, i, c, k, sum0);
    sum1 = FadeAndSee(d, r, i + 1, c, k, sum1);
    sum2 = FadeAndSee(d, r, i + 2, c, k, sum2);
    sum3 = FadeAndSee(d, r, i + 3, c, k, sum3);
    hn::StoreU(k, d, key + c);
  }
  weights[0] = hn::GetLane(hn::SumOfLanes(d, sum0));
  weights[1] = hn::GetLane(hn::SumOfLanes(d, sum1));
  weights[2] = hn::GetLane(hn::SumOfLanes(d, sum2));
  weights[3] = hn::GetLane(hn::SumOfLanes(d, sum3));
  for (; c < r.K; ++c) {
    auto k = hn::LoadU(d1, key + c);
    for (size_t x = 0; x < 4; ++x) {
      const auto sum = hn::Set(d1, weights[x]);
      weights[x] = hn::GetLane(FadeAndSee(d1, r, i + x, c, k, sum));
    }
    hn::StoreU(k, d1, key + c);
  }
}

template <class D>
HWY_INLINE float SeeByOne(D d, const KeyDecayRead& r, size_t i, float* key) {
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  auto sums = hn::Zero(d);
  size_t c = 0;
  for (; c + N <= r.K; c += N) {
    auto k = hn::LoadU(d, key + c);
    sums = FadeAndSee(d, r, i, c, k, sums);
    hn::StoreU(k, d, key + c);
  }
  auto sum = hn::Set(d1, hn::GetLane(hn::SumOfLanes(d, sums)));
  for (; c < r.K; ++c) {
    auto k = hn::LoadU(d1, key + c);
    sum = FadeAndSee(d1, r, i, c, k, sum);
    hn::StoreU(k, d1, key + c);
  }
  return hn::GetLane(sum);
}

// weights[j, i] = how much token i sees of token j, for i >= j, and 0 else.
//   key  f32[K]  scratch
HWY_INLINE void SeeKeys(const KeyDecayRead& r, float* key, float* weights) {
  const hn::ScalableTag<float> d;
  const size_t W = kKeyChunkTokens;
  std::fill_n(weights, W * W, 0.0f);
  for (size_t j = 0; j < r.L; ++j) {
    const float* k = r.k.At(j);
    const float* q = r.q.At(j);
    std::copy_n(k, r.K, key);
    float* row = weights + j * W;
    if (r.bonus == nullptr) {
      row[j] = Dot(r.K, k, q);
    } else {
      float* own = key + r.K;
      Map([](auto, auto x, auto y) { return hn::Mul(x, y); }, r.K, k, r.bonus,
          own);
      row[j] = Dot(r.K, own, q);
    }
    size_t i = j + 1;
    for (; i + 4 <= r.L; i += 4) SeeByFour(d, r, i, key, row + i);
    for (; i < r.L; ++i) row[i] = SeeByOne(d, r, i, key);
  }
}

// Channels c and up of all keys, faded to the end of the chunk, and what is
// kept of the state, as the sum of two floats. The decays' products are in
// double: what is kept is applied chunk after chunk.
template <class D>
HWY_INLINE void FadeKeys(D d, const KeyDecayUpdate& u, size_t c, float* to,
                         float* kept, float* kept_low) {
  const hn::Rebind<float, D> d32;
  auto product = hn::Set(d, 1.0);
  for (size_t j = u.L; j-- > 0;) {
    const auto k = hn::LoadU(d32, u.k.At(j) + c);
    hn::StoreU(hn::Mul(k, hn::DemoteTo(d32, product)), d32, to + j * u.K + c);
    auto alpha = hn::PromoteTo(d, hn::LoadU(d32, u.alpha.At(j) + c));
    if (u.alpha_low.data != nullptr) {
      const auto low = hn::LoadU(d32, u.alpha_low.At(j) + c);
      alpha = hn::Add(alpha, hn::PromoteTo(d, low));
    }
    product = hn::Mul(product, alpha);
  }
  const auto nearest = hn::DemoteTo(d32, product);
  const auto lacking = hn::Sub(product, hn::PromoteTo(d, nearest));
  hn::StoreU(nearest, d32, kept + c);
  hn::StoreU(hn::DemoteTo(d32, lacking), d32, kept_low + c);
}

// o_i <- S^T (q_i o D_i), and what tokens see of each other: returns it as
// SeeKeys leaves it, in the scratch memory.
HWY_INLINE float* ReadBefore(const KeyDecayRead& r) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  float* weights = r.scratch;
  float* queries = weights + kKeyChunkTokens * kKeyChunkTokens;
  size_t c = 0;
  for (; c + N <= r.K; c += N) FadeQueries(d, r, c, queries);
  for (; c < r.K; ++c) FadeQueries(d1, r, c, queries);
  SeeKeys(r, queries + kKeyChunkTokens * r.K, weights);
  MultiplyMatrices({.m = r.L,
                    .n = r.V,
                    .k = r.K,
                    .a = queries,
                    .a_row = r.K,
                    .b = r.state,
                    .b_row = r.V,
                    .c = r.o,
                    .c_row = r.o_stride});
  return weights;
}

void ReadKeyDecayChunkOfTarget(const KeyDecayRead& r) {
  const float* const weights = ReadBefore(r);
  const float one = 1;
  MultiplyMatrices({.m = r.L,
                    .n = r.V,
                    .k = r.L,
                    .a = weights,
                    .a_row = 1,
                    .a_col = kKeyChunkTokens,
                    .b = r.v.data,
                    .b_row = r.v.stride,
                    .c = r.o,
                    .c_row = r.o_stride,
                    .keep = &one,
                    .lower_a = true});
  if (r.scale == 1) return;
  for (size_t i = 0; i < r.L; ++i) {
    for (size_t j = 0; j < r.V; ++j) r.o[i * r.o_stride + j] *= r.scale;
  }
}

void UpdateKeyDecayChunkOfTarget(const KeyDecayUpdate& u) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> d1;
  const size_t N = hn::Lanes(d);
  float* kept = u.scratch;
  float* kept_low = kept + u.K;
  float* keys = kept_low + u.K;
  size_t c = 0;
  for (; c + N <= u.K; c += N) FadeKeys(d, u, c, keys, kept, kept_low);
  for (; c < u.K; ++c) FadeKeys(d1, u, c, keys, kept, kept_low);
  MultiplyMatrices({.m = u.K,
                    .n = u.V,
                    .k = u.L,
                    .a = keys,
                    .a_row = 1,
                    .a_col = u.K,
                    .b = u.v.data,
                    .b_row = u.v.stride,
                    .c = u.state,
                    .c_row = u.V,
                    .keep = kept,
                    .keep_low = kept_low,
                    .keep_step = 1});
}

void SolveKeyDecayDeltaOfTarget(const KeyDecayDelta& c) {
  // Keys look for what is held under them as queries do.
  float* const weights = ReadBefore({.L = c.L,
                                     .K = c.K,
                                     .V = c.V,
                                     .alpha = c.alpha,
                                     .q = c.k,
                                     .k = c.k,
                                     .state = c.state,
                                     .scratch = c.scratch,
                                     .o = c.u,
                                     .o_stride = c.V});
  SolveDeltaSystem({.L = c.L,
                    .V = c.V,
                    .v = c.v,
                    .beta = c.beta,
                    .weights = weights,
                    .row = 1,
                    .col = kKeyChunkTokens,
                    .u = c.u});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(ReadKeyDecayChunkOfTarget);
HWY_EXPORT(UpdateKeyDecayChunkOfTarget);
HWY_EXPORT(SolveKeyDecayDeltaOfTarget);

void ReadKeyDecayChunk(const KeyDecayRead& args) {
  HWY_DYNAMIC_DISPATCH(ReadKeyDecayChunkOfTarget)(args);
}

void UpdateKeyDecayChunk(const KeyDecayUpdate& args) {
  HWY_DYNAMIC_DISPATCH(UpdateKeyDecayChunkOfTarget)(args);
}

void SolveKeyDecayDelta(const KeyDecayDelta& args) {
  HWY_DYNAMIC_DISPATCH(SolveKeyDecayDeltaOfTarget)(args);
}

}  // namespace steadystate
#endif  // HWY_ONCE
