// SoftmaxAttentionTokens: queries are columns. A block of keys times all
// queries gives the scores, [keys, queries]; what each query has seen so far,
// its greatest score and the sum of its weights, is a row of floats beside it.
#include <algorithm>
#include <limits>

#include "kernels/attention/softmax_attention.h"
#include "kernels/chunk/matrix_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_tokens.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/simd/math-inl.h"

#ifndef STEADYSTATE_KERNELS_ATTENTION_ATTENTION_TOKENS_CC_
#define STEADYSTATE_KERNELS_ATTENTION_ATTENTION_TOKENS_CC_
namespace steadystate {
namespace {

// Keys of a block: counted from the first token of the session, so that which
// tokens stand together in it follows from their positions.
constexpr size_t kBlock = 64;
// Columns are padded to so many, whatever the target's vectors.
constexpr size_t kLanes = 16;

size_t Padded(size_t queries) {
  return (queries + kLanes - 1) / kLanes * kLanes;
}

// The scores of a block and what they change.
struct BlockColumns {
  size_t rows;           // keys
  size_t columns;        // queries, padded
  const float* visible;  // f32[columns], how many of the keys each sees; null:
                         // all
  float* scores;         // f32[rows, columns]  in/out: become weights
  float* max;            // f32[columns]        in/out
  float* sum;            // f32[columns]        in/out
  float* keep;           // f32[columns]        out: of the sums so far
};

}  // namespace
}  // namespace steadystate
#endif  // STEADYSTATE_KERNELS_ATTENTION_ATTENTION_TOKENS_CC_

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// A vector of columns, row by row.
template <class D>
HWY_INLINE void WeighVector(D d, const BlockColumns& block, size_t c) {
  float* const scores = block.scores + c;
  const size_t stride = block.columns;
  if (block.visible != nullptr) {
    const auto visible = hn::LoadU(d, block.visible + c);
    const auto hidden = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (size_t j = 0; j < block.rows; ++j) {
      const auto seen = hn::Lt(hn::Set(d, static_cast<float>(j)), visible);
      float* const at = scores + j * stride;
      hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hidden), d, at);
    }
  }
  const auto before = hn::LoadU(d, block.max + c);
  auto max = before;
  for (size_t j = 0; j < block.rows; ++j) {
    max = hn::Max(max, hn::LoadU(d, scores + j * stride));
  }
  auto sum = hn::Zero(d);
  for (size_t j = 0; j < block.rows; ++j) {
    float* const at = scores + j * stride;
    const auto weight = BoundedExp(d, hn::Sub(hn::LoadU(d, at), max));
    hn::StoreU(weight, d, at);
    sum = hn::Add(sum, weight);
  }
  const auto keep = BoundedExp(d, hn::Sub(before, max));
  hn::StoreU(keep, d, block.keep + c);
  hn::StoreU(max, d, block.max + c);
  hn::StoreU(hn::MulAdd(hn::LoadU(d, block.sum + c), keep, sum), d,
             block.sum + c);
}

template <class D>
HWY_INLINE void WidenVector(D d, const int8_t* from, float unit, float* to) {
  const hn::RebindToSigned<D> d32;
  const hn::Rebind<int8_t, D> d8;
  const auto whole = hn::PromoteTo(d32, hn::LoadU(d8, from));
  hn::StoreU(hn::Mul(hn::ConvertTo(d, whole), hn::Set(d, unit)), d, to);
}

// n whole numbers times their unit.
void WidenOfTarget(size_t n, const int8_t* from, float unit, float* to) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  size_t i = 0;
  for (; i + N <= n; i += N) WidenVector(d, from + i, unit, to + i);
  for (; i < n; ++i) WidenVector(d1, from + i, unit, to + i);
}

void WeighOfTarget(const BlockColumns& block) {
  const hn::CappedTag<float, kLanes> d;
  const size_t N = hn::Lanes(d);
  for (size_t c = 0; c < block.columns; c += N) WeighVector(d, block, c);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace steadystate {

HWY_EXPORT(WeighOfTarget);
HWY_EXPORT(WidenOfTarget);

namespace {

// The scratch memory, cut up.
struct Places {
  Places(size_t queries, size_t d, float* scratch)
      : columns(Padded(queries)),
        q(scratch),
        scores(q + d * columns),
        visible(scores + kBlock * columns),
        max(visible + columns),
        sum(max + columns),
        keep(sum + columns),
        o(keep + columns),
        rows(o + queries * d) {}

  size_t columns;
  float* q;        // f32[d, columns], scaled
  float* scores;   // f32[kBlock, columns]
  float* visible;  // f32[columns]
  float* max;      // f32[columns]
  float* sum;      // f32[columns]
  float* keep;     // f32[columns]
  float* o;        // f32[queries, d]
  float* rows;     // f32[kBlock, d], of keys or values that are not f32
};

// The queries as columns.
void LayQueries(const AttentionTokens& tokens, size_t d, const Places& at) {
  const size_t queries = tokens.tokens * tokens.heads;
  std::fill_n(at.q, d * at.columns, 0.0f);
  for (size_t i = 0; i < queries; ++i) {
    const float* q =
        tokens.q + i / tokens.heads * tokens.q_stride + i % tokens.heads * d;
    for (size_t c = 0; c < d; ++c) {
      at.q[c * at.columns + i] = tokens.scale * q[c];
    }
  }
  std::fill_n(at.max, at.columns, -std::numeric_limits<float>::infinity());
  std::fill_n(at.sum, at.columns, 0.0f);
}

// How many of the keys from `first` on each query sees; false if all see all.
bool LayVisible(const AttentionTokens& tokens, size_t first, size_t rows,
                const Places& at) {
  if (tokens.position + 1 >= first + rows) return false;
  const size_t queries = tokens.tokens * tokens.heads;
  for (size_t i = 0; i < at.columns; ++i) {
    const size_t seen = tokens.position + i / tokens.heads + 1;
    at.visible[i] = i < queries
                        ? static_cast<float>(seen - std::min(seen, first))
                        : static_cast<float>(rows);
  }
  return true;
}

// Rows of keys or values as float32: where they lie, or converted.
struct FloatRows {
  const float* data;
  size_t stride;
};
FloatRows RowsOf(const KeyValueRows& cache, const void* all, const float* units,
                 size_t first, size_t rows, float* converted) {
  if (cache.dtype == DType::kF32) {
    return {static_cast<const float*>(all) + first * cache.stride,
            cache.stride};
  }
  for (size_t j = 0; j < rows; ++j) {
    const size_t at = (first + j) * cache.stride;
    float* const to = converted + j * cache.d;
    if (cache.dtype == DType::kI8) {
      HWY_DYNAMIC_DISPATCH(WidenOfTarget)
      (cache.d, static_cast<const int8_t*>(all) + at,
       units[(first + j) * cache.unit_stride], to);
    } else {
      ConvertToF32({all, cache.dtype}, at, cache.d, to);
    }
  }
  return {converted, cache.d};
}

}  // namespace

size_t AttentionScratch(size_t queries, size_t d) {
  return (d + kBlock + 4) * Padded(queries) + (queries + kBlock) * d;
}

void SoftmaxAttentionTokens(const KeyValueRows& cache,
                            const AttentionTokens& tokens, float* scratch) {
  const size_t d = cache.d;
  const size_t queries = tokens.tokens * tokens.heads;
  const Places at(queries, d, scratch);
  LayQueries(tokens, d, at);
  const size_t end = tokens.position + tokens.tokens;
  for (size_t first = 0; first < end; first += kBlock) {
    const size_t rows = std::min(kBlock, end - first);
    const FloatRows keys =
        RowsOf(cache, cache.keys, cache.key_units, first, rows, at.rows);
    MatrixProduct({.m = rows,
                   .n = at.columns,
                   .k = d,
                   .a = keys.data,
                   .a_row = keys.stride,
                   .b = at.q,
                   .b_row = at.columns,
                   .c = at.scores,
                   .c_row = at.columns});
    const bool hidden = LayVisible(tokens, first, rows, at);
    HWY_DYNAMIC_DISPATCH(WeighOfTarget)
    ({.rows = rows,
      .columns = at.columns,
      .visible = hidden ? at.visible : nullptr,
      .scores = at.scores,
      .max = at.max,
      .sum = at.sum,
      .keep = at.keep});
    const FloatRows values =
        RowsOf(cache, cache.values, cache.value_units, first, rows, at.rows);
    MatrixProduct({.m = queries,
                   .n = d,
                   .k = rows,
                   .a = at.scores,
                   .a_row = 1,
                   .a_col = at.columns,
                   .b = values.data,
                   .b_row = values.stride,
                   .c = at.o,
                   .c_row = d,
                   .keep = first == 0 ? nullptr : at.keep,
                   .keep_step = 1});
  }
  for (size_t i = 0; i < queries; ++i) {
    float* o =
        tokens.o + i / tokens.heads * tokens.o_stride + i % tokens.heads * d;
    const float factor = 1.0f / at.sum[i];
    for (size_t c = 0; c < d; ++c) o[c] = factor * at.o[i * d + c];
  }
}

}  // namespace steadystate
#endif  // HWY_ONCE
