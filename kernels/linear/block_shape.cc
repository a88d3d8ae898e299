#include "kernels/linear/block_shape.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/panel_plan.h"
#include "kernels/linear/tiling.h"
#include "kernels/linear/trials.h"

namespace steadystate {
namespace {

// Rows of the tiles that are tried on each shape.
constexpr size_t kAllTileSizes[] = {1,  2,  4,  8,   16,  24,
                                    32, 48, 64, 128, 256, 512};

// Larger ones than kMaxDecodeTile make bf16 and int8 twice as fast with AMX,
// and nothing as much as 3 % faster without: not worth the time to try them.
std::span<const size_t> TileSizes(DType weights) {
  const bool large = weights != DType::kF32 && DescribeMatmulLibrary().amx;
  const size_t* const end = std::upper_bound(
      std::begin(kAllTileSizes), std::end(kAllTileSizes), kMaxDecodeTile);
  return {std::begin(kAllTileSizes), large ? std::end(kAllTileSizes) : end};
}

// Packed weights for trials, of rows [width, in].
struct TrialWeights {
  AlignedBytes place;
  TileMatmul::Weights packed;
};

absl::StatusOr<TrialWeights> PackForTrials(const TileMatmul& matmul,
                                           const void* rows) {
  TrialWeights weights;
  if (!weights.place.Allocate(matmul.packed_bytes())) {
    return absl::ResourceExhaustedError("no memory to try a projection");
  }
  auto packed = matmul.Pack(rows, weights.place.data());
  if (!packed.ok()) return packed.status();
  weights.packed = *std::move(packed);
  return weights;
}

// With fewer columns, plans that differ might seem equal.
constexpr size_t kFewestPanelColumns = 16;
// Where oneDNN has AMX, more rows are faster by its tiles. Vectors imitate
// AMX's order of sums where this process is not given its tiles.
constexpr PanelRows kPanelRowsBesideAmx = {.by_vectors = 8,
                                           .by_amx = kMaxPanelRows};

// Rows that may go by panels, none where the weights do not lie in such.
// Without AMX nothing is faster. Keeping oneDNN from AVX-512 or from AMX keeps
// panels from it too.
PanelRows MostPanelRows(const BlockShape& shape) {
  const MatmulLibrary library = DescribeMatmulLibrary();
  if (!library.avx512 || !shape.matmul->panel_bytes().has_value() ||
      shape.width < kFewestPanelColumns ||
      shape.in % ElementsPerStep(shape.dtype) != 0) {
    return {};
  }
  if (library.amx) return kPanelRowsBesideAmx;
  return {.by_vectors = SIZE_MAX};
}

TileSet KernelsOf(const TileMatmul& matmul, std::vector<size_t> sizes) {
  TileSet set;
  const std::vector<size_t>& all = matmul.sizes();
  for (const size_t rows : sizes) {
    const auto found = std::lower_bound(all.begin(), all.end(), rows);
    set.kernels.push_back(static_cast<size_t>(found - all.begin()));
  }
  set.sizes = std::move(sizes);
  return set;
}

// The plan with the results of a class's tiles.
PanelPlan FindPlan(const BlockShape& shape, RowClass row_class,
                   const TileMatmul::Weights& weights, const TileTrials& trials,
                   std::span<const TileTrial> results) {
  const TileSet& tiles = shape.Tiles(row_class);
  const PanelRows most_rows = MostPanelRows(shape);
  if (tiles.kernels.empty() || most_rows.by_vectors == 0) return {};
  return FindEqualPlan(shape.PanelsOf(weights), trials,
                       results[tiles.kernels.front()].results, most_rows);
}

// Keeps of all tiles those of each class that may be mixed freely.
absl::Status KeepEqualTiles(DType dtype, BlockShape& shape) {
  const TileMatmul& matmul = *shape.matmul;
  const TileTrials trials(shape.in, shape.width, dtype);
  const auto weights = PackForTrials(matmul, trials.weights());
  if (!weights.ok()) return weights.status();
  TileMatmul::Scratch scratch;
  std::vector<TileTrial> results;
  for (size_t i = 0; i < matmul.sizes().size(); ++i) {
    scratch.Reserve(matmul, i);
    results.push_back(
        trials.Try(matmul.sizes()[i], [&](const void* x, float* y) {
          matmul.Run(i, weights->packed, x, y, scratch);
        }));
  }
  RowTiles chosen = ChooseRowTiles(results);
  shape.tiles = {KernelsOf(matmul, std::move(chosen.decode)),
                 KernelsOf(matmul, std::move(chosen.prefill))};
  const auto find_plan = [&](RowClass row_class) {
    return FindPlan(shape, row_class, weights->packed, trials, results);
  };
  const PanelPlan decode = find_plan(RowClass::kDecode);
  const bool one_class = shape.tiles[0].kernels == shape.tiles[1].kernels;
  shape.panels = {decode, one_class ? decode : find_plan(RowClass::kPrefill)};
  return absl::OkStatus();
}

// The sizes of tiles that add whole numbers of a magnitude up to `limit`
// without loss, but for what `sums` says.
absl::StatusOr<std::vector<size_t>> ExactSizes(const BlockShape& shape,
                                               int limit,
                                               IntegerTrials::Sums sums) {
  const TileMatmul& matmul = *shape.matmul;
  const IntegerTrials trials(shape.in, shape.width,
                             static_cast<uint8_t>(2 * limit + 1));
  const auto weights = PackForTrials(matmul, trials.weights());
  if (!weights.ok()) return weights.status();
  TileMatmul::Scratch scratch;
  std::vector<size_t> exact;
  for (size_t i = 0; i < matmul.sizes().size(); ++i) {
    scratch.Reserve(matmul, i);
    const size_t rows = matmul.sizes()[i];
    if (trials.Exact(rows, sums, [&](const uint8_t* x, int32_t* y) {
          matmul.Run(i, weights->packed, x, y, scratch);
        })) {
      exact.push_back(rows);
    }
  }
  return exact;
}

// The sums of bytes by panels have no order that could differ from the tiles';
// what is tried is that the weights lie as they are read.
absl::Status KeepExactPanels(BlockShape& shape) {
  const PanelRows most_rows = MostPanelRows(shape);
  if (shape.limit != 127 || most_rows.by_vectors == 0) {
    return absl::OkStatus();
  }
  const IntegerTrials trials(shape.in, shape.width, 255);
  const auto weights = PackForTrials(*shape.matmul, trials.weights());
  if (!weights.ok()) return weights.status();
  const PanelPlan plan =
      FindExactPlan(shape.PanelsOf(weights->packed), trials, most_rows);
  shape.panels = {plan, plan};
  return absl::OkStatus();
}

// Exact sums are equal sums: both classes have all sizes that are exact. So are
// exact sums that are rounded, which is why these will do where there are none.
absl::Status KeepExactTiles(BlockShape& shape) {
  using Sums = IntegerTrials::Sums;
  for (const Sums sums : {Sums::kWhole, Sums::kRoundedToF32}) {
    // The largest magnitudes of inputs with which no pair of products saturates
    // 16 bits, with VNNI instructions and without.
    for (const int limit : {127, 63}) {
      auto sizes = ExactSizes(shape, limit, sums);
      if (!sizes.ok()) return sizes.status();
      shape.limit = limit;
      const TileSet set = KernelsOf(*shape.matmul, *std::move(sizes));
      shape.tiles = {set, set};
      if (set.sizes.size() == shape.matmul->sizes().size()) break;
    }
    if (shape.Tiles(RowClass::kDecode).sizes.empty()) continue;
    // Those by panels are not rounded.
    if (sums == Sums::kWhole) return KeepExactPanels(shape);
    break;
  }
  return absl::OkStatus();
}

}  // namespace

PanelBlock BlockShape::PanelsOf(const TileMatmul::Weights& weights) const {
  return {dtype, in, width, matmul->panel_bytes().value_or(0), weights.data()};
}

absl::StatusOr<std::shared_ptr<const BlockShape>> MakeBlockShape(DType weights,
                                                                 size_t in,
                                                                 size_t width) {
  auto shape = std::make_shared<BlockShape>();
  shape->dtype = weights;
  shape->in = in;
  shape->width = width;
  auto matmul = TileMatmul::Create(weights, in, width, TileSizes(weights));
  if (!matmul.ok()) return matmul.status();
  shape->matmul = *std::move(matmul);
  const absl::Status tried = weights == DType::kI8
                                 ? KeepExactTiles(*shape)
                                 : KeepEqualTiles(weights, *shape);
  if (!tried.ok()) return tried;
  if (shape->Tiles(RowClass::kDecode).sizes.empty()) {
    return absl::InternalError(absl::StrCat(
        "oneDNN has no ", weights == DType::kI8 ? "exact int8" : "repeatable",
        " multiplication of ", in, " inputs by ", width, " outputs"));
  }
  return shape;
}

}  // namespace steadystate
