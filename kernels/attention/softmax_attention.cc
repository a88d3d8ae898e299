#include "kernels/attention/softmax_attention.h"

#include <algorithm>
#include <cstdint>
#include <limits>
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

using BlockTag = hn::CappedTag<float, kRowsAtOnce>;

// e^(x - max) for x <= max.
template <class D>
HWY_INLINE hn::Vec<D> ExpBelow(D d, hn::Vec<D> max, hn::Vec<D> x) {
  const auto e = ExpOfMinus(d, hn::Sub(max, x));
  return hn::MulAdd(e.power, e.more, e.power);
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

// Keys whose products with the queries of some heads are summed together, so
// that one sum over lanes serves four of them.
constexpr size_t kKeysAtOnce = 4;
// Heads whose sums of so many keys fit into the registers.
constexpr size_t kHeadsInRegisters = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

#if HWY_TARGET != HWY_SCALAR
// The vector as one of four lanes: those that are four apart added up.
template <class D>
HWY_INLINE auto FoldToFour(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(D()) <= kKeysAtOnce) {
    (void)d;
    return v;
  } else {
    const hn::Half<D> half;
    return FoldToFour(half,
                      hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}
#endif

// to[r] <- the sum of the lanes of the r-th vector, of four.
template <class D>
HWY_INLINE void SumLanes(D d, const hn::Vec<D>* v, float* to) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  for (size_t r = 0; r < kKeysAtOnce; ++r) to[r] = hn::GetLane(v[r]);
#else
  const hn::RepartitionToWide<D> pairs;
  const auto v01 = hn::Add(hn::InterleaveLower(d, v[0], v[1]),
                           hn::InterleaveUpper(d, v[0], v[1]));
  const auto v23 = hn::Add(hn::InterleaveLower(d, v[2], v[3]),
                           hn::InterleaveUpper(d, v[2], v[3]));
  const auto even = hn::InterleaveLower(pairs, hn::BitCast(pairs, v01),
                                        hn::BitCast(pairs, v23));
  const auto odd = hn::InterleaveUpper(pairs, hn::BitCast(pairs, v01),
                                       hn::BitCast(pairs, v23));
  const auto sums = hn::Add(hn::BitCast(d, even), hn::BitCast(d, odd));
  hn::StoreU(FoldToFour(d, sums), hn::CappedTag<float, kKeysAtOnce>(), to);
#endif
}

// What some heads' queries have with some keys.
//   q     f32[kHeads, width]         in
//   keys  kKeysAtOnce of [width]     in
//   dots  f32[kHeads, kKeysAtOnce]   out
template <size_t kHeads, typename Element>
HWY_INLINE void Dots(size_t width, const float* q, const Element* const* keys,
                     float* dots) {
  if constexpr (kHeads > kHeadsInRegisters) {
    constexpr size_t kMost = kHeadsInRegisters;
    Dots<kMost>(width, q, keys, dots);
    Dots<kHeads - kMost>(width, q + kMost * width, keys,
                         dots + kMost * kKeysAtOnce);
    return;
  }
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  hn::Vec<decltype(d)> sums[kHeads][kKeysAtOnce];
  for (auto& of_head : sums) {
    for (auto& sum : of_head) sum = hn::Zero(d);
  }
  size_t c = 0;
  for (; c + N <= width; c += N) {
    const auto k0 = LoadRow(d, keys[0] + c);
    const auto k1 = LoadRow(d, keys[1] + c);
    const auto k2 = LoadRow(d, keys[2] + c);
    const auto k3 = LoadRow(d, keys[3] + c);
    for (size_t h = 0; h < kHeads; ++h) {
      const auto x = hn::LoadU(d, q + h * width + c);
      sums[h][0] = hn::MulAdd(x, k0, sums[h][0]);
      sums[h][1] = hn::MulAdd(x, k1, sums[h][1]);
      sums[h][2] = hn::MulAdd(x, k2, sums[h][2]);
      sums[h][3] = hn::MulAdd(x, k3, sums[h][3]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    SumLanes(d, sums[h], dots + h * kKeysAtOnce);
  }
  for (; c < width; ++c) {
    for (size_t h = 0; h < kHeads; ++h) {
      const auto x = hn::LoadU(d1, q + h * width + c);
      for (size_t r = 0; r < kKeysAtOnce; ++r) {
        float* const dot = dots + h * kKeysAtOnce + r;
        const auto k = LoadRow(d1, keys[r] + c);
        hn::StoreU(hn::MulAdd(x, k, hn::LoadU(d1, dot)), d1, dot);
      }
    }
  }
}

// Fetches one array of the rows of a block while those of the block before are
// computed: row after row, all heads of one together, as they lie in memory.
// Rows are short and may lie far apart, one on a page: no stream that a CPU
// would fetch by itself, and read head after head each page would be looked up
// for each. They are fetched to the second cache, whose misses may be more at a
// time.
template <typename Element>
class FetchAhead {
 public:
  // Rows from `first` on, of so many elements, `stride` elements apart.
  FetchAhead(const Element* first, size_t rows, size_t elements, size_t stride)
      : row_(first), rows_(rows), elements_(elements), stride_(stride) {}

  // The next so many elements; to be called as as many are computed.
  HWY_INLINE void Next(size_t elements) {
    constexpr size_t kLine = 64 / sizeof(Element);
    if (rows_ == 0) return;
    for (size_t i = 0; i < elements; i += kLine) {
      __builtin_prefetch(row_ + done_ + i, 0, 2);
    }
    done_ += elements;
    if (done_ < elements_) return;
    done_ = 0;
    row_ += stride_;
    --rows_;
  }

 private:
  const Element* row_;
  size_t rows_;
  const size_t elements_;
  const size_t stride_;
  size_t done_ = 0;  // of the row
};

// Rows [first, end) of a cache, and what is fetched meanwhile.
template <typename Element>
struct RowBlock {
  size_t first;
  size_t end;
  FetchAhead<Element>* keys;
  FetchAhead<Element>* values;

  size_t size() const { return end - first; }
};

// Vectors of columns of some heads whose sums fit into the registers.
constexpr size_t kMostVectors = HWY_TARGET <= HWY_AVX3 ? 4 : 2;

// Adds to some heads' weighted sums of values what a block of rows gives to
// kVectors vectors of columns from c on. The first block begins the sums.
//   weights  f32[kHeads, kRowsAtOnce]  in
//   o        f32[kHeads, d]            in/out
template <size_t kHeads, size_t kVectors, typename Element, class D>
HWY_INLINE void AddValues(D d, const KeyValueRows& cache,
                          const RowBlock<Element>& rows, size_t c,
                          const float* weights, float* o) {
  const size_t N = hn::Lanes(d);
  const Element* row =
      static_cast<const Element*>(cache.values) + rows.first * cache.stride + c;
  hn::Vec<D> sums[kHeads][kVectors];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t x = 0; x < kVectors; ++x) {
      const float* const so_far = o + h * cache.d + c + x * N;
      sums[h][x] = rows.first == 0 ? hn::Zero(d) : hn::LoadU(d, so_far);
    }
  }
  for (size_t j = 0; j < rows.size(); ++j, row += cache.stride) {
    rows.values->Next(kVectors * N);
    hn::Vec<D> v[kVectors];
    for (size_t x = 0; x < kVectors; ++x) v[x] = LoadRow(d, row + x * N);
    for (size_t h = 0; h < kHeads; ++h) {
      const auto weight = hn::Set(d, weights[h * kRowsAtOnce + j]);
      for (size_t x = 0; x < kVectors; ++x) {
        sums[h][x] = hn::MulAdd(weight, v[x], sums[h][x]);
      }
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t x = 0; x < kVectors; ++x) {
      hn::StoreU(sums[h][x], d, o + h * cache.d + c + x * N);
    }
  }
}

// The same of all columns.
template <size_t kHeads, typename Element>
HWY_INLINE void AddValueRows(const KeyValueRows& cache,
                             const RowBlock<Element>& rows,
                             const float* weights, float* o) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  constexpr size_t kMost = kMostVectors;
  size_t c = 0;
  for (; c + kMost * N <= cache.d; c += kMost * N) {
    AddValues<kHeads, kMost, Element>(d, cache, rows, c, weights, o);
  }
  for (; c + N <= cache.d; c += N) {
    AddValues<kHeads, 1, Element>(d, cache, rows, c, weights, o);
  }
  for (; c + N4 <= cache.d; c += N4) {
    AddValues<kHeads, 1, Element>(d4, cache, rows, c, weights, o);
  }
  for (; c < cache.d; ++c) {
    AddValues<kHeads, 1, Element>(d1, cache, rows, c, weights, o);
  }
}

// scores[h, j] <- scale q_h . k_j, for the rows of a block. A key's score is
// the same bits wherever the cache ends: what is missing of the last keys is
// the last one, once more.
//   scores  f32[kHeads, kRowsAtOnce]  out
template <size_t kHeads, typename Element>
HWY_INLINE void Score(const KeyValueRows& cache, const RowBlock<Element>& rows,
                      float scale, const float* q, float* scores) {
  const hn::CappedTag<float, kKeysAtOnce> d4;
  const Element* const first = static_cast<const Element*>(cache.keys);
  for (size_t j = rows.first; j < rows.end; j += kKeysAtOnce) {
    const Element* keys[kKeysAtOnce];
    float of_row[kKeysAtOnce];
    float dots[kHeads * kKeysAtOnce];
    for (size_t r = 0; r < kKeysAtOnce; ++r) {
      const size_t row = std::min(j + r, rows.end - 1);
      keys[r] = first + row * cache.stride;
      of_row[r] = scale;
      if constexpr (std::is_same_v<Element, int8_t>) {
        of_row[r] *= cache.key_units[row * cache.unit_stride];
      }
      rows.keys->Next(cache.d);
    }
    Dots<kHeads>(cache.d, q, keys, dots);
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t r = 0; r < kKeysAtOnce; r += hn::Lanes(d4)) {
        const auto dot = hn::LoadU(d4, dots + h * kKeysAtOnce + r);
        hn::StoreU(hn::Mul(hn::LoadU(d4, of_row + r), dot), d4,
                   scores + h * kRowsAtOnce + (j - rows.first) + r);
      }
    }
  }
  if (rows.size() == kRowsAtOnce) return;
  for (size_t h = 0; h < kHeads; ++h) {
    std::fill(scores + h * kRowsAtOnce + rows.size(),
              scores + (h + 1) * kRowsAtOnce,
              -std::numeric_limits<float>::infinity());
  }
}

HWY_INLINE float Sum(const float* sums) {
  const BlockTag d;
  auto sum = hn::LoadU(d, sums);
  for (size_t j = hn::Lanes(d); j < kRowsAtOnce; j += hn::Lanes(d)) {
    sum = hn::Add(sum, hn::LoadU(d, sums + j));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// The largest of a block's scores.
HWY_INLINE float Max(const float* scores) {
  const BlockTag d;
  auto most = hn::LoadU(d, scores);
  for (size_t j = hn::Lanes(d); j < kRowsAtOnce; j += hn::Lanes(d)) {
    most = hn::Max(most, hn::LoadU(d, scores + j));
  }
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

HWY_INLINE bool AnyAbove(float max, const float* scores) {
  const BlockTag d;
  auto above = hn::Gt(hn::LoadU(d, scores), hn::Set(d, max));
  for (size_t j = hn::Lanes(d); j < kRowsAtOnce; j += hn::Lanes(d)) {
    above = hn::Or(above, hn::Gt(hn::LoadU(d, scores + j), hn::Set(d, max)));
  }
  return !hn::AllFalse(d, above);
}

// Takes a greater maximum: what was summed with the one before is made smaller.
//   sums  f32[kRowsAtOnce]  in/out     o  f32[d]  in/out
HWY_INLINE void Raise(float max, float& before, size_t d, float* sums,
                      float* o) {
  const hn::CappedTag<float, 1> d1;
  const float kept =
      hn::GetLane(ExpBelow(d1, hn::Set(d1, max), hn::Set(d1, before)));
  before = max;
  for (size_t j = 0; j < kRowsAtOnce; ++j) sums[j] *= kept;
  for (size_t c = 0; c < d; ++c) o[c] *= kept;
}

// A block's scores become weights e^(score - max), which are added to the sums.
//   scores, sums  f32[kRowsAtOnce]  in/out
HWY_INLINE void Weigh(float max, float* scores, float* sums) {
  const BlockTag d;
  const auto most = hn::Set(d, max);
  for (size_t j = 0; j < kRowsAtOnce; j += hn::Lanes(d)) {
    const auto weight = ExpBelow(d, most, hn::LoadU(d, scores + j));
    hn::StoreU(weight, d, scores + j);
    hn::StoreU(hn::Add(hn::LoadU(d, sums + j), weight), d, sums + j);
  }
}

// What a query has seen so far: the greatest score, and by places in blocks the
// sums of the weights.
struct Seen {
  float* max;   // f32[queries]
  float* sums;  // f32[queries, kRowsAtOnce]

  Seen From(size_t query) const {
    return {max + query, sums + query * kRowsAtOnce};
  }
};

// Takes a block's scores into what a query has seen; they become weights.
//   o  f32[d]  in/out
HWY_INLINE void TakeScores(bool begins, size_t d, float* scores,
                           const Seen& seen, float* o) {
  if (begins) {
    *seen.max = Max(scores);
    std::fill_n(seen.sums, kRowsAtOnce, 0.0f);
  } else if (AnyAbove(*seen.max, scores)) {
    Raise(Max(scores), *seen.max, d, seen.sums, o);
  }
  Weigh(*seen.max, scores, seen.sums);
}

// A block of rows for some heads' queries.
//   weights  f32[kHeads, kRowsAtOnce]  scratch
template <size_t kHeads, typename Element>
HWY_INLINE void BlockOfHeads(const KeyValueRows& cache,
                             const RowBlock<Element>& rows, float scale,
                             const float* q, float* weights, const Seen& seen,
                             float* o) {
  Score<kHeads>(cache, rows, scale, q, weights);
  for (size_t h = 0; h < kHeads; ++h) {
    float* const of_head = weights + h * kRowsAtOnce;
    TakeScores(rows.first == 0, cache.d, of_head, seen.From(h),
               o + h * cache.d);
    if constexpr (std::is_same_v<Element, int8_t>) {
      const float* const units =
          cache.value_units + rows.first * cache.unit_stride;
      for (size_t j = 0; j < rows.size(); ++j) {
        of_head[j] *= units[j * cache.unit_stride];
      }
    }
  }
  AddValueRows<kHeads>(cache, rows, weights, o);
}

template <typename Element>
HWY_INLINE void BlockOfGroup(const KeyValueRows& cache,
                             const RowBlock<Element>& rows, size_t heads,
                             float scale, const float* q, float* weights,
                             const Seen& seen, float* o) {
  for (size_t h = 0; h < heads; h += kHeadsAtOnce) {
    const float* const of_q = q + h * cache.d;
    float* const of_o = o + h * cache.d;
    switch (heads - h) {
      case 1:
        BlockOfHeads<1>(cache, rows, scale, of_q, weights, seen.From(h), of_o);
        break;
      case 2:
        BlockOfHeads<2>(cache, rows, scale, of_q, weights, seen.From(h), of_o);
        break;
      case 3:
        BlockOfHeads<3>(cache, rows, scale, of_q, weights, seen.From(h), of_o);
        break;
      default:
        BlockOfHeads<4>(cache, rows, scale, of_q, weights, seen.From(h), of_o);
    }
  }
}

// The cache of a head, of those that lie side by side.
template <typename Element>
HWY_INLINE KeyValueRows HeadOf(const KeyValueRows& cache, size_t g) {
  KeyValueRows head = cache;
  head.keys = static_cast<const Element*>(cache.keys) + g * cache.d;
  head.values = static_cast<const Element*>(cache.values) + g * cache.d;
  if constexpr (std::is_same_v<Element, int8_t>) {
    head.key_units += g;
    head.value_units += g;
  }
  return head;
}

template <typename Element>
HWY_INLINE void StepOf(const KeyValueRows& cache, const TokenQueries& t,
                       float* scratch) {
  const size_t heads = t.kv_heads * t.group;
  float* const weights = scratch;
  float* const sums = weights + kHeadsAtOnce * kRowsAtOnce;
  const Seen seen = {sums + heads * kRowsAtOnce, sums};
  const auto ahead = [&](const void* rows, size_t first, size_t n) {
    const auto* const begin = static_cast<const Element*>(rows);
    return FetchAhead<Element>(n == 0 ? begin : begin + first * cache.stride, n,
                               t.kv_heads * cache.d, cache.stride);
  };
  for (size_t j = 0; j < cache.n; j += kRowsAtOnce) {
    const size_t end = std::min(cache.n, j + kRowsAtOnce);
    const size_t next = std::min(kRowsAtOnce, cache.n - end);
    auto keys = ahead(cache.keys, end, next);
    // Rows that are both are fetched as keys.
    auto values =
        ahead(cache.values, end, cache.values == cache.keys ? 0 : next);
    const RowBlock<Element> rows = {j, end, &keys, &values};
    for (size_t g = 0; g < t.kv_heads; ++g) {
      const size_t h = g * t.group;
      BlockOfGroup(HeadOf<Element>(cache, g), rows, t.group, t.scale,
                   t.q + h * cache.d, weights, seen.From(h), t.o + h * cache.d);
    }
  }
  for (size_t h = 0; h < heads; ++h) {
    const float factor = 1.0f / Sum(seen.From(h).sums);
    for (size_t c = 0; c < cache.d; ++c) t.o[h * cache.d + c] *= factor;
  }
}

void StepOfTarget(const KeyValueRows& cache, const TokenQueries& queries,
                  float* scratch) {
  if (cache.dtype == DType::kF32) {
    StepOf<float>(cache, queries, scratch);
  } else if (cache.dtype == DType::kI8) {
    StepOf<int8_t>(cache, queries, scratch);
  } else {
    StepOf<uint16_t>(cache, queries, scratch);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(StepOfTarget);

void SoftmaxAttentionStep(const KeyValueRows& cache,
                          const TokenQueries& queries, float* scratch) {
  HWY_DYNAMIC_DISPATCH(StepOfTarget)(cache, queries, scratch);
}

}  // namespace steadystate
#endif  // HWY_ONCE
