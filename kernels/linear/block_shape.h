#ifndef STEADYSTATE_KERNELS_LINEAR_BLOCK_SHAPE_H_
#define STEADYSTATE_KERNELS_LINEAR_BLOCK_SHAPE_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/linear/panel_plan.h"
#include "kernels/linear/tile_matmul.h"
#include "kernels/linear/tiling.h"

namespace steadystate {

// The row tiles of one class.
struct TileSet {
  std::vector<size_t> sizes;    // rows, ascending; bit-equal to each other
  std::vector<size_t> kernels;  // of each, its index in TileMatmul::sizes()
};

// What all blocks of columns of one shape share: how they are multiplied, by
// tiles of which sizes, and which rows go without tiles. Immutable.
struct BlockShape {
  DType dtype = DType::kF32;
  size_t in = 0;
  size_t width = 0;
  std::unique_ptr<TileMatmul> matmul;
  std::array<TileSet, 2> tiles;     // by RowClass
  std::array<PanelPlan, 2> panels;  // likewise; bit-equal to the tiles
  // With int8 weights: the magnitude up to which whole numbers are added
  // without loss (but see IntegerTrials::Sums), 127 or, on CPUs without VNNI
  // instructions, 63.
  int limit = 0;

  const TileSet& Tiles(RowClass row_class) const {
    return tiles[static_cast<size_t>(row_class)];
  }
  const PanelPlan& Panels(RowClass row_class) const {
    return panels[static_cast<size_t>(row_class)];
  }
  // What the plans multiply by.
  PanelBlock PanelsOf(const TileMatmul::Weights& weights) const;
};

// Makes the shape and tries its tiles. Errors as of TileMatmul::Create, and
// INTERNAL if no size of tile is repeatable, or with int8 weights exact, at
// least before its sums are rounded to f32.
// REQUIRES: OpenMP has one thread.
absl::StatusOr<std::shared_ptr<const BlockShape>> MakeBlockShape(DType weights,
                                                                 size_t in,
                                                                 size_t width);

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_LINEAR_BLOCK_SHAPE_H_
