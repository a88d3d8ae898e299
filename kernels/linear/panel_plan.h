#ifndef STEADYSTATE_KERNELS_LINEAR_PANEL_PLAN_H_
#define STEADYSTATE_KERNELS_LINEAR_PANEL_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <span>

#include "kernels/dtype.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/panel_product.h"
#include "kernels/linear/trials.h"

namespace steadystate {

// One block of columns whose packed weights lie in panels.
struct PanelBlock {
  DType dtype = DType::kF32;
  size_t in = 0;
  size_t width = 0;
  size_t panel_bytes = 0;              // from one panel to the next
  const std::byte* weights = nullptr;  // aligned to 64 bytes
  // Those of the block that comes next on this thread; null: nobody knows.
  const std::byte* next = nullptr;
};

// How rows meet the panels of a block. Equal plans give equal bits.
struct PanelPlan {
  MultiplyPanel multiply = nullptr;
  size_t chunk = 0;     // steps, of PanelProduct
  size_t max_rows = 0;  // calls of more rows go by tiles; 0: all do

  bool Takes(size_t rows) const { return rows <= max_rows; }
};

// Of the sums and the partial sums of kMaxPanelRows rows of one panel.
inline constexpr size_t kPanelScratchBytes =
    size_t{2} * kMaxPanelRows * kPanelColumns * 4;

// Multiplies rows by a block, panel after panel. store(row, count, column,
// width, sums) takes the sums of rows [row, row + count) and of `width` columns
// from `column` on, as f32 or s32[count, width; stride kPanelColumns].
//   x        rows of in elements, RowBytes apart  in
//   scratch  kPanelScratchBytes, aligned to 64 bytes
template <typename Store>
void MultiplyPanels(const PanelPlan& plan, const PanelBlock& block, size_t rows,
                    const std::byte* x, std::byte* scratch,
                    const Store& store) {
  PanelProduct product{};
  product.steps = block.in / ElementsPerStep(block.dtype);
  product.chunk = plan.chunk;
  product.x_stride = RowBytes(block.dtype, block.in);
  product.panel = block.weights;
  product.sums = scratch;
  product.partial = scratch + kPanelScratchBytes / 2;
  product.end = block.weights + PanelsFor(block.width) * block.panel_bytes;
  product.next = block.next;
  for (size_t column = 0; column < block.width; column += kPanelColumns) {
    const size_t width = std::min(kPanelColumns, block.width - column);
    for (size_t row = 0; row < rows; row += kMaxPanelRows) {
      product.rows = std::min(kMaxPanelRows, rows - row);
      product.x = x + row * product.x_stride;
      plan.multiply(product);
      store(row, product.rows, column, width, product.sums);
    }
    product.panel += block.panel_bytes;
  }
}

// Rows of a call up to which panels are worth their while, by the instructions
// that multiply. 0: those are not to be used.
struct PanelRows {
  size_t by_vectors = 0;
  size_t by_amx = 0;

  size_t Of(const PanelLoop& loop) const {
    return loop.amx ? by_amx : by_vectors;
  }
};

// The plan, of those with which this CPU can multiply the block, whose results
// for the rows of `trials` are `expected`, bit for bit. Else one that takes no
// rows.
//   expected  f32[test rows, width], TileTrial::results
PanelPlan FindEqualPlan(const PanelBlock& block, const TileTrials& trials,
                        std::span<const float> expected,
                        const PanelRows& max_rows);

// The plan for bytes, whose sums are exact in any order. One that takes no rows
// if there is none, or if it fails `trials`.
//   block  of the trials' weights
PanelPlan FindExactPlan(const PanelBlock& block, const IntegerTrials& trials,
                        const PanelRows& max_rows);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_PANEL_PLAN_H_
