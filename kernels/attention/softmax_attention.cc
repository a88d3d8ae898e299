#include "kernels/attention/softmax_attention.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/softmax_attention.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"
#include "kernels/state/packed_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct ExpMinusOp {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return BoundedExp(d, hn::Sub(x, hn::Set(d, max)));
  }
  float max;
};

// sum_j weights[j], in an order that depends on n only.
HWY_INLINE float Sum(size_t n, const float* weights) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t j = 0;
  for (; j + N <= n; j += N) sum = hn::Add(sum, hn::LoadU(d, weights + j));
  if (j < n) sum = hn::Add(sum, LoadPartial(d, weights + j, n - j));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The largest of them.
HWY_INLINE float Max(size_t n, const float* weights) {
  const hn::ScalableTag<float> d;
  const size_t N = hn::Lanes(d);
  auto most = hn::Set(d, weights[0]);
  size_t j = 0;
  for (; j + N <= n; j += N) most = hn::Max(most, hn::LoadU(d, weights + j));
  float max = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; j < n; ++j) max = std::max(max, weights[j]);
  return max;
}

template <class D>
HWY_INLINE hn::Vec<D> LoadRow(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadRow(D d, const uint16_t* from) {
  return LoadBf16(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadRow(D d, const int8_t* from) {
  const hn::RebindToSigned<D> d32;
  const hn::Rebind<int8_t, D> d8;
  return hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, from)));
}

// Some heads' queries against one key: adds what columns [c, end) give in steps
// of D's lanes. Returns the first column that is left.
template <size_t kHeads, class D, typename Element>
HWY_INLINE size_t AddDots(D d, size_t c, size_t width, const float* q,
                          const Element* key, float* dots) {
  const size_t N = hn::Lanes(d);
  if (c + N > width) return c;
  hn::Vec<D> sums[kHeads];
  for (size_t h = 0; h < kHeads; ++h) sums[h] = hn::Zero(d);
  for (; c + N <= width; c += N) {
    const auto k = LoadRow(d, key + c);
    for (size_t h = 0; h < kHeads; ++h) {
      sums[h] = hn::MulAdd(hn::LoadU(d, q + h * width + c), k, sums[h]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    dots[h] += hn::GetLane(hn::SumOfLanes(d, sums[h]));
  }
  return c;
}

// Rows of a cache lie far apart, and each is short: no stream that a CPU would
// fetch by itself. They are fetched to the second cache, whose misses may be
// more at a time. Keys are fetched so many rows ahead.
constexpr size_t kKeysAhead = 8;
// Values are summed over so many rows at a time, column after column: few
// enough to stay in the first cache while the next ones come.
constexpr size_t kValueRows = 32;

template <typename Element>
HWY_INLINE void Fetch(const Element* row, size_t width) {
  constexpr size_t kLine = 64 / sizeof(Element);
  for (size_t c = 0; c < width; c += kLine) __builtin_prefetch(row + c, 0, 2);
}

// Rows [first, end) of a cache; `more`: as many follow.
struct RowBlock {
  size_t first;
  size_t end;
  bool more;
};

// Adds to some heads' weighted sums of values what a block of rows gives to two
// vectors of columns, or to one. The first block begins the sums.
//   o  f32[kHeads, d]  in/out
template <size_t kHeads, class D, typename Element>
HWY_INLINE void AddValues(D d, const KeyValueRows& cache, const RowBlock& rows,
                          size_t vectors, size_t c, const float* weights,
                          float* o) {
  const size_t N = hn::Lanes(d);
  const Element* row =
      static_cast<const Element*>(cache.values) + rows.first * cache.stride + c;
  hn::Vec<D> first[kHeads];
  hn::Vec<D> second[kHeads];
  for (size_t h = 0; h < kHeads; ++h) {
    first[h] = second[h] = hn::Zero(d);
    if (rows.first == 0) continue;
    first[h] = hn::LoadU(d, o + h * cache.d + c);
    if (vectors == 2) second[h] = hn::LoadU(d, o + h * cache.d + c + N);
  }
  for (size_t j = rows.first; j < rows.end; ++j, row += cache.stride) {
    if (rows.more) __builtin_prefetch(row + kValueRows * cache.stride, 0, 2);
    const auto v = LoadRow(d, row);
    const auto next = vectors == 2 ? LoadRow(d, row + N) : v;
    for (size_t h = 0; h < kHeads; ++h) {
      const auto weight = hn::Set(d, weights[h * cache.n + j]);
      first[h] = hn::MulAdd(weight, v, first[h]);
      second[h] = hn::MulAdd(weight, next, second[h]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    hn::StoreU(first[h], d, o + h * cache.d + c);
    if (vectors == 2) hn::StoreU(second[h], d, o + h * cache.d + c + N);
  }
}

// The same of all columns.
template <size_t kHeads, typename Element>
HWY_INLINE void AddValueRows(const KeyValueRows& cache, const RowBlock& rows,
                             const float* weights, float* o) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  size_t c = 0;
  for (; c + 2 * N <= cache.d; c += 2 * N) {
    AddValues<kHeads, decltype(d), Element>(d, cache, rows, 2, c, weights, o);
  }
  for (; c + N <= cache.d; c += N) {
    AddValues<kHeads, decltype(d), Element>(d, cache, rows, 1, c, weights, o);
  }
  for (; c + N4 <= cache.d; c += N4) {
    AddValues<kHeads, decltype(d4), Element>(d4, cache, rows, 1, c, weights, o);
  }
  for (; c < cache.d; ++c) {
    AddValues<kHeads, decltype(d1), Element>(d1, cache, rows, 1, c, weights, o);
  }
}

template <size_t kHeads, typename Element>
HWY_INLINE void StepOfHeads(const KeyValueRows& cache, float scale,
                            const float* q, float* scores, float* o) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t width = cache.d;
  const Element* key = static_cast<const Element*>(cache.keys);
  for (size_t j = 0; j < cache.n; ++j, key += cache.stride) {
    if (j + kKeysAhead < cache.n) {
      Fetch(key + kKeysAhead * cache.stride, width);
    }
    float dots[kHeads] = {};
    size_t c = AddDots<kHeads>(d, 0, width, q, key, dots);
    c = AddDots<kHeads>(d4, c, width, q, key, dots);
    AddDots<kHeads>(d1, c, width, q, key, dots);
    float of_row = scale;
    if constexpr (std::is_same_v<Element, int8_t>) {
      of_row *= cache.key_units[j * cache.unit_stride];
    }
    for (size_t h = 0; h < kHeads; ++h) {
      scores[h * cache.n + j] = of_row * dots[h];
    }
  }
  float factors[kHeads];
  for (size_t h = 0; h < kHeads; ++h) {
    float* weights = scores + h * cache.n;
    const float max = Max(cache.n, weights);
    Map(ExpMinusOp{max}, cache.n, weights, weights);
    factors[h] = 1.0f / Sum(cache.n, weights);
    if constexpr (std::is_same_v<Element, int8_t>) {
      for (size_t j = 0; j < cache.n; ++j) {
        weights[j] *= cache.value_units[j * cache.unit_stride];
      }
    }
  }
  for (size_t j = 0; j < cache.n; j += kValueRows) {
    const size_t end = std::min(cache.n, j + kValueRows);
    AddValueRows<kHeads, Element>(cache, {j, end, end + kValueRows <= cache.n},
                                  scores, o);
  }
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t c = 0; c < width; ++c) o[h * width + c] *= factors[h];
  }
}

template <typename Element>
HWY_INLINE void StepOf(const KeyValueRows& cache, size_t heads, float scale,
                       const float* q, float* scores, float* o) {
  size_t h = 0;
  for (; h + kHeadsAtOnce <= heads; h += kHeadsAtOnce) {
    StepOfHeads<kHeadsAtOnce, Element>(cache, scale, q + h * cache.d, scores,
                                       o + h * cache.d);
  }
  for (; h < heads; ++h) {
    StepOfHeads<1, Element>(cache, scale, q + h * cache.d, scores,
                            o + h * cache.d);
  }
}

void StepOfTarget(const KeyValueRows& cache, size_t heads, float scale,
                  const float* q, float* scores, float* o) {
  if (cache.dtype == DType::kF32) {
    StepOf<float>(cache, heads, scale, q, scores, o);
  } else if (cache.dtype == DType::kI8) {
    StepOf<int8_t>(cache, heads, scale, q, scores, o);
  } else {
    StepOf<uint16_t>(cache, heads, scale, q, scores, o);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(StepOfTarget);

void SoftmaxAttentionStep(const KeyValueRows& cache, size_t heads, float scale,
                          const float* q, float* scores, float* o) {
  HWY_DYNAMIC_DISPATCH(StepOfTarget)(cache, heads, scale, q, scores, o);
}

}  // namespace steadystate
#endif  // HWY_ONCE
