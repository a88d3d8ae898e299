#ifndef STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_
#define STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_

#include <cstddef>

#include "kernels/dtype.h"

namespace steadystate {

// The cached keys and values of a head, of n tokens, the oldest first. Those of
// further heads lie behind, d elements on, their units one on.
struct KeyValueRows {
  size_t d = 0;                // width of keys and values
  size_t n = 0;                // rows, >= 1
  size_t stride = 0;           // elements from row to row
  DType dtype = DType::kF32;   // or kBf16, kI8
  const void* keys = nullptr;  // [n, d; stride]
  const void* values = nullptr;
  // Of kI8: what each row is in multiples of, as QuantizeRow has it.
  const float* key_units = nullptr;  // [n; unit_stride]
  const float* value_units = nullptr;
  size_t unit_stride = 0;  // floats from row to row
};

// The queries of one token.
struct TokenQueries {
  size_t kv_heads = 1;  // heads of the cache
  size_t group = 1;     // queries that share each
  float scale = 1;
  const float* q = nullptr;  // f32[kv_heads, group, d]
  float* o = nullptr;        // f32[kv_heads, group, d]  out
};

inline constexpr size_t kHeadsAtOnce = 4;
// Rows of the cache that are taken together, counted from the first.
inline constexpr size_t kRowsAtOnce = 16;

// Floats of scratch memory of a step, for so many queries.
inline constexpr size_t StepScratch(size_t queries) {
  return (kHeadsAtOnce + queries) * kRowsAtOnce + queries;
}

// Softmax attention of one token's queries over the caches of their heads:
//   o_h = sum_j softmax_j(scale q_h . k_j) v_j, with the maximum subtracted.
// The rows of a block are read once, for all heads; greatest score and sum go
// on from block to block (Milakov and Gimelshein 2018). The order of the cache
// rows is the order of the sums: a ring buffer gives the same bits only when
// read in the same order. What a query gets depends on that query and its own
// head's cache only, bit for bit.
//   scratch  f32[StepScratch(kv_heads * group)]
// REQUIRES: o and scratch alias nothing.
void SoftmaxAttentionStep(const KeyValueRows& cache,
                          const TokenQueries& queries, float* scratch);

// Consecutive tokens of a session, whose keys and values are in the cache
// already.
struct AttentionTokens {
  size_t tokens = 0;
  size_t heads = 0;     // of queries, that share the cache's
  size_t position = 0;  // of the first token; it sees position + 1 rows
  float scale = 1;
  const float* q = nullptr;  // f32[tokens, heads, d; q_stride a token]
  size_t q_stride = 0;
  float* o = nullptr;  // f32[tokens, heads, d; o_stride a token]  out
  size_t o_stride = 0;
};

// Floats of scratch memory of the below, for so many tokens times heads.
size_t AttentionScratch(size_t queries, size_t d);

// The same of several tokens at once, as matrix products over blocks of keys,
// the sums going on from block to block. Agrees with SoftmaxAttentionStep
// within rounding; what a query gets depends on that query, its position and
// the cache, and on nothing else, bit for bit.
//   cache    of at least position + tokens rows
//   scratch  f32[AttentionScratch(tokens * heads, d)]
void SoftmaxAttentionTokens(const KeyValueRows& cache,
                            const AttentionTokens& tokens, float* scratch);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_ATTENTION_SOFTMAX_ATTENTION_H_
