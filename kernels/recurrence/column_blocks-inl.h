// The loop that the recurrences share: a head's state in blocks of columns, so
// many at a time as registers bear. Include after foreach_target.h.
//
// A kernel gives a rule, the arithmetic of one vector of columns:
//   K                          its key rows
//   row(i)                     what all columns share in key row i: numbers and
//                              pointers, in a struct of their own
//   Column(d, j)               the values v of columns j and up
//   Advance(d, row, j, v, o)   updates these columns of one key row, and adds
//                              its share to their sums o
//   Finish(d, j, o)            stores what the sums give
// A column's bits are the same in a block of any width, since its sums run over
// the key rows in their order and Advance is the same.

#if defined(STEADYSTATE_KERNELS_RECURRENCE_COLUMN_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_RECURRENCE_COLUMN_BLOCKS_INL_H_
#undef STEADYSTATE_KERNELS_RECURRENCE_COLUMN_BLOCKS_INL_H_
#else
#define STEADYSTATE_KERNELS_RECURRENCE_COLUMN_BLOCKS_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Blocks of columns from j on. Their values and sums stay in registers over the
// loop on key rows, so that the state is the only stream through memory. The
// wider a block, the longer the contiguous pieces of that stream: eight vectors
// are half again as fast from DRAM as four, and all that 16 registers bear.
template <class D, class Rule>
HWY_INLINE void EightVectors(D d, const Rule& rule, size_t j) {
  const size_t N = hn::Lanes(d);
  const auto v0 = rule.Column(d, j);
  const auto v1 = rule.Column(d, j + N);
  const auto v2 = rule.Column(d, j + 2 * N);
  const auto v3 = rule.Column(d, j + 3 * N);
  const auto v4 = rule.Column(d, j + 4 * N);
  const auto v5 = rule.Column(d, j + 5 * N);
  const auto v6 = rule.Column(d, j + 6 * N);
  const auto v7 = rule.Column(d, j + 7 * N);
  auto o0 = hn::Zero(d);
  auto o1 = hn::Zero(d);
  auto o2 = hn::Zero(d);
  auto o3 = hn::Zero(d);
  auto o4 = hn::Zero(d);
  auto o5 = hn::Zero(d);
  auto o6 = hn::Zero(d);
  auto o7 = hn::Zero(d);
  for (size_t i = 0; i < rule.K; ++i) {
    const auto row = rule.row(i);
    rule.Advance(d, row, j, v0, o0);
    rule.Advance(d, row, j + N, v1, o1);
    rule.Advance(d, row, j + 2 * N, v2, o2);
    rule.Advance(d, row, j + 3 * N, v3, o3);
    rule.Advance(d, row, j + 4 * N, v4, o4);
    rule.Advance(d, row, j + 5 * N, v5, o5);
    rule.Advance(d, row, j + 6 * N, v6, o6);
    rule.Advance(d, row, j + 7 * N, v7, o7);
  }
  rule.Finish(d, j, o0);
  rule.Finish(d, j + N, o1);
  rule.Finish(d, j + 2 * N, o2);
  rule.Finish(d, j + 3 * N, o3);
  rule.Finish(d, j + 4 * N, o4);
  rule.Finish(d, j + 5 * N, o5);
  rule.Finish(d, j + 6 * N, o6);
  rule.Finish(d, j + 7 * N, o7);
}

template <class D, class Rule>
HWY_INLINE void FourVectors(D d, const Rule& rule, size_t j) {
  const size_t N = hn::Lanes(d);
  const auto v0 = rule.Column(d, j);
  const auto v1 = rule.Column(d, j + N);
  const auto v2 = rule.Column(d, j + 2 * N);
  const auto v3 = rule.Column(d, j + 3 * N);
  auto o0 = hn::Zero(d);
  auto o1 = hn::Zero(d);
  auto o2 = hn::Zero(d);
  auto o3 = hn::Zero(d);
  for (size_t i = 0; i < rule.K; ++i) {
    const auto row = rule.row(i);
    rule.Advance(d, row, j, v0, o0);
    rule.Advance(d, row, j + N, v1, o1);
    rule.Advance(d, row, j + 2 * N, v2, o2);
    rule.Advance(d, row, j + 3 * N, v3, o3);
  }
  rule.Finish(d, j, o0);
  rule.Finish(d, j + N, o1);
  rule.Finish(d, j + 2 * N, o2);
  rule.Finish(d, j + 3 * N, o3);
}

template <class D, class Rule>
HWY_INLINE void OneVector(D d, const Rule& rule, size_t j) {
  const auto v0 = rule.Column(d, j);
  auto o0 = hn::Zero(d);
  for (size_t i = 0; i < rule.K; ++i) rule.Advance(d, rule.row(i), j, v0, o0);
  rule.Finish(d, j, o0);
}

// Every column of a head of V columns once, those of a block by all `rules` in
// turn: what one rule leaves, the next finds in cache.
template <class... Rules>
HWY_INLINE void ForColumnBlocks(size_t V, const Rules&... rules) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  size_t j = 0;
  for (; j + 8 * N <= V; j += 8 * N) (EightVectors(d, rules, j), ...);
  for (; j + 4 * N <= V; j += 4 * N) (FourVectors(d, rules, j), ...);
  for (; j + N <= V; j += N) (OneVector(d, rules, j), ...);
  for (; j + N4 <= V; j += N4) (OneVector(d4, rules, j), ...);
  for (; j < V; ++j) (OneVector(d1, rules, j), ...);
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_RECURRENCE_COLUMN_BLOCKS_INL_H_
