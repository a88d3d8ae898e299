// The loop that the recurrences share: a head's state row after row, as it lies
// in memory. Include after foreach_target.h.
//
// A kernel gives a rule, the arithmetic of one vector of columns:
//   Element                    of the state and of sums: float or double
//   token                      the HeadToken, of which the loop takes K
//   row(i)                     what all columns share in key row i: numbers and
//                              pointers, in a struct of their own
//   Column(d, j)               the values v of columns j and up
//   Advance(d, row, j, v, o)   updates these columns of one key row, and adds
//                              its share to their sums o
//   Finish(d, j, o)            stores what the sums give
// A column's bits do not depend on which loop has it, since its sums run over
// the key rows in their order and Advance is the same.

#if defined(STEADYSTATE_KERNELS_RECURRENCE_STATE_COLUMNS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef STEADYSTATE_KERNELS_RECURRENCE_STATE_COLUMNS_INL_H_
#undef STEADYSTATE_KERNELS_RECURRENCE_STATE_COLUMNS_INL_H_
#else
#define STEADYSTATE_KERNELS_RECURRENCE_STATE_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <utility>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace steadystate {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A state that streams from DRAM is read at its full rate only in the order of
// its addresses: halves of rows, one below the other, take twice the
// time. So a row is taken whole. Its sums stay in registers where it is just so
// many vectors wide,
#if HWY_TARGET <= HWY_AVX3
constexpr size_t kRegisterVectors = 16;  // of 32 registers
#else
constexpr size_t kRegisterVectors = 8;  // of 16
#endif
// and else in this much of the stack, of which a core's first cache holds four
// times as much.
constexpr size_t kSumBytes = 8192;

template <size_t... n, class D, class Rule>
HWY_INLINE void InRegisters(std::index_sequence<n...>, D d, const Rule& rule) {
  const size_t N = hn::Lanes(d);
  const hn::Vec<D> v[] = {rule.Column(d, n * N)...};
  hn::Vec<D> o[] = {(static_cast<void>(n), hn::Zero(d))...};
  for (size_t i = 0; i < rule.token.K; ++i) {
    const auto row = rule.row(i);
    (rule.Advance(d, row, n * N, v[n], o[n]), ...);
  }
  (rule.Finish(d, n * N, o[n]), ...);
}

// Calls body(d, j) for vectors that cover columns [0, columns) once.
template <class Element, class Body>
HWY_INLINE void ForVectors(size_t columns, const Body& body) {
  const hn::ScalableTag<Element> d;
  const hn::CappedTag<Element, 4> d4;
  const hn::CappedTag<Element, 1> d1;
  const size_t N = hn::Lanes(d);
  const size_t N4 = hn::Lanes(d4);
  size_t j = 0;
  for (; j + N <= columns; j += N) body(d, j);
  for (; j + N4 <= columns; j += N4) body(d4, j);
  for (; j < columns; ++j) body(d1, j);
}

// The columns [first, first + columns), their sums on the stack.
template <class Rule>
HWY_INLINE void OnStack(size_t first, size_t columns, const Rule& rule) {
  using Element = typename Rule::Element;
  HWY_ALIGN Element sums[kSumBytes / sizeof(Element)];
  std::fill_n(sums, columns, Element{0});
  for (size_t i = 0; i < rule.token.K; ++i) {
    const auto row = rule.row(i);
    ForVectors<Element>(columns, [&](auto d, size_t j) HWY_ATTR {
      auto o = hn::LoadU(d, sums + j);
      rule.Advance(d, row, first + j, rule.Column(d, first + j), o);
      hn::StoreU(o, d, sums + j);
    });
  }
  ForVectors<Element>(columns, [&](auto d, size_t j) HWY_ATTR {
    rule.Finish(d, first + j, hn::LoadU(d, sums + j));
  });
}

// Runs InRegisters if V is `vectors` vectors, a power of two, or a smaller one.
template <size_t vectors, class Rule>
HWY_INLINE bool FitRegisters(size_t V, const Rule& rule) {
  const hn::ScalableTag<typename Rule::Element> d;
  if (V == vectors * hn::Lanes(d)) {
    InRegisters(std::make_index_sequence<vectors>(), d, rule);
    return true;
  }
  if constexpr (vectors > 1) return FitRegisters<vectors / 2>(V, rule);
  return false;
}

// Every column of a head of V columns once, by one rule.
template <class Rule>
HWY_INLINE void ForColumns(size_t V, const Rule& rule) {
  if (FitRegisters<kRegisterVectors>(V, rule)) return;
  constexpr size_t kColumns = kSumBytes / sizeof(typename Rule::Element);
  for (size_t j = 0; j < V; j += kColumns) {
    OnStack(j, std::min(kColumns, V - j), rule);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace steadystate
HWY_AFTER_NAMESPACE();

#endif  // STEADYSTATE_KERNELS_RECURRENCE_STATE_COLUMNS_INL_H_
