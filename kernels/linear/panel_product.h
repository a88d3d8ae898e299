#ifndef STEADYSTATE_KERNELS_LINEAR_PANEL_PRODUCT_H_
#define STEADYSTATE_KERNELS_LINEAR_PANEL_PRODUCT_H_

#include <cstddef>
#include <vector>

#include "kernels/dtype.h"

namespace steadystate {

// Columns of W that lie together in memory, as a panel.
inline constexpr size_t kPanelColumns = 64;
// Rows that a panel meets at once.
inline constexpr size_t kMaxPanelRows = 64;
// Sums begin anew at multiples of this many steps only.
inline constexpr size_t kPanelSlab = 256;

// Some rows of X times one panel of W. A step takes four bytes of each row (one
// f32, two bf16, four u8) and those of 64 columns that they meet.
struct PanelProduct {
  size_t rows;             // 1 to kMaxPanelRows
  size_t steps;            // >= 1
  size_t chunk;            // steps added up by themselves: n * kPanelSlab
  const std::byte* x;      // [rows, steps] of 4 bytes, rows x_stride apart
  size_t x_stride;         // bytes
  const std::byte* panel;  // [steps, 64] of 4 bytes; aligned to 64 bytes
  // What is multiplied after it, to be fetched ahead: what lies behind it up to
  // `end`, and then what begins at `next`, if that is not null.
  const std::byte* end;
  const std::byte* next;
  std::byte* sums;     // f32 or s32[rows, 64] out; aligned to 64 bytes
  std::byte* partial;  // scratch, as sums
};

// Computes it, on the calling thread. For streaming: a panel is read once, from
// its begin to its end, and what comes next is fetched meanwhile. A row's bits
// are a function of the row, the panel and `chunk`:
//   f32   s <- fma(x_k, w_k, s), k ascending, from 0 in every chunk
//   bf16  s <- fma(x_k, w_k, fma(x_k+1, w_k+1, s)), k = 0, 2, ..., denormal
//         numbers being zero, as VDPBF16PS has it; or s <- s + (a + b) for each
//         32 inputs, a <- fma(x_k, w_k, a), b <- fma(x_k+1, w_k+1, b), from 0,
//         as TDPBF16PS of AMX has it
//   s8    exact
// and the chunks' sums are added in order.
using MultiplyPanel = void (*)(const PanelProduct& product);

// One way to compute it.
struct PanelLoop {
  MultiplyPanel multiply = nullptr;
  bool amx = false;  // by AMX's tiles
};

// Those of this CPU for weights of kF32, kBf16 or kI8, at least one for each
// order of sums, the fastest first.
std::vector<PanelLoop> FindPanelLoops(DType weights);

// Panels that `columns` columns take.
constexpr size_t PanelsFor(size_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns;
}

// Elements of X in a step.
constexpr size_t ElementsPerStep(DType weights) { return 4 / SizeOf(weights); }

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_PANEL_PRODUCT_H_
