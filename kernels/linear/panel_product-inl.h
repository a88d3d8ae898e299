// The loops of panel_product.h, compiled for whatever instructions the file
// that includes this has chosen by then. A `Loop` is what some rows do with a
// slab:
//   static constexpr size_t kPassRows;  // that it takes at most
//   // Fetches `kLines` lines from `ahead` on in each step; returns the next.
//   template <size_t kRows, Ahead kAhead, size_t kLines>
//   static const std::byte* Run(const Pass& pass, const std::byte* ahead);
#include <immintrin.h>

#include <algorithm>
#include <cstddef>

#include "kernels/linear/panel_product.h"

namespace steadystate {
namespace {

constexpr size_t kStepBytes = kPanelColumns * 4;
constexpr size_t kVectors = 4;  // of 16 columns

// What is fetched while a slab is worked on: the slab behind it.
enum class Ahead { kNothing, kToFirstCache, kToSecondCache };

// Some rows' part of one slab.
struct Pass {
  size_t steps;
  const std::byte* x;
  size_t x_stride;
  const std::byte* weights;
  std::byte* sums;
  std::byte* partial;
  bool begins;  // a chunk
  bool ends;    // a chunk
  bool first;   // that chunk is the first
};

template <Ahead kAhead>
void Fetch(const std::byte* line) {
  if constexpr (kAhead == Ahead::kToFirstCache) _mm_prefetch(line, _MM_HINT_T0);
  if constexpr (kAhead == Ahead::kToSecondCache) {
    _mm_prefetch(line, _MM_HINT_T1);
  }
}

// Runs the pass of a number of rows that is known only now.
template <typename Loop, Ahead kAhead, size_t kLines,
          size_t kRows = Loop::kPassRows>
const std::byte* RunPass(size_t rows, const Pass& pass,
                         const std::byte* ahead) {
  if constexpr (kRows > 1) {
    if (rows < kRows) {
      return RunPass<Loop, kAhead, kLines, kRows - 1>(rows, pass, ahead);
    }
  }
  return Loop::template Run<kRows, kAhead, kLines>(pass, ahead);
}

// One pass over the slab: the CPU foresees a single stream by itself. Two or
// three: the slab behind goes to the second cache, for the first is full with
// what is worked on. More: these take long enough for it to arrive, line by
// line, in the first one.
template <typename Loop>
const std::byte* RunPass(size_t passes, size_t index, size_t rows,
                         const Pass& pass, const std::byte* ahead,
                         const std::byte* end) {
  if (passes == 1 || ahead >= end) {
    return RunPass<Loop, Ahead::kNothing, 0>(rows, pass, ahead);
  }
  if (passes < 4) {
    if (index > 1) return RunPass<Loop, Ahead::kNothing, 0>(rows, pass, ahead);
    return RunPass<Loop, Ahead::kToSecondCache, 2>(rows, pass, ahead);
  }
  if (index > 3) return RunPass<Loop, Ahead::kNothing, 0>(rows, pass, ahead);
  return RunPass<Loop, Ahead::kToFirstCache, 1>(rows, pass, ahead);
}

template <typename Loop>
void MultiplyPanelWith(const PanelProduct& product) {
  const size_t passes = (product.rows + Loop::kPassRows - 1) / Loop::kPassRows;
  for (size_t k = 0; k < product.steps; k += kPanelSlab) {
    Pass pass{};
    pass.steps = std::min(kPanelSlab, product.steps - k);
    pass.x_stride = product.x_stride;
    pass.weights = product.panel + k * kStepBytes;
    pass.begins = k % product.chunk == 0;
    pass.ends = (k + kPanelSlab) % product.chunk == 0 ||
                k + pass.steps == product.steps;
    pass.first = k < product.chunk;
    const std::byte* ahead = pass.weights + pass.steps * kStepBytes;
    for (size_t i = 0; i < passes; ++i) {
      const size_t row = i * product.rows / passes;
      const size_t rows = (i + 1) * product.rows / passes - row;
      pass.x = product.x + row * product.x_stride + 4 * k;
      pass.sums = product.sums + row * kStepBytes;
      pass.partial = product.partial + row * kStepBytes;
      ahead = RunPass<Loop>(passes, i, rows, pass, ahead, product.end);
    }
  }
}

}  // namespace
}  // namespace steadystate
