// Goal: block widths are bounded, whole grains, and a function of the shape;
// tile sizes that agree are used together, and cover the rows of a call.
// Method: made up trials and shapes.

#include "kernels/linear/tiling.h"

#include <vector>

#include "gtest/gtest.h"

namespace steadystate::tiling_test {
namespace {

using Sizes = std::vector<size_t>;

TEST(ChooseRowTilesTest, TakesTheLargestSetOfEqualResults) {
  const TileTrial trials[] = {{1, true, {1.0f}},  {2, true, {2.0f}},
                              {4, true, {1.0f}},  {8, true, {2.0f}},
                              {16, true, {1.0f}}, {32, true, {3.0f}}};
  EXPECT_EQ(ChooseRowTiles(trials).decode, (Sizes{1, 4, 16}));
}

TEST(ChooseRowTilesTest, OfEquallyLargeSetsTakesTheLargerSizes) {
  const TileTrial trials[] = {{1, true, {1.0f}},
                              {2, true, {2.0f}},
                              {4, true, {1.0f}},
                              {8, true, {2.0f}}};
  EXPECT_EQ(ChooseRowTiles(trials).decode, (Sizes{2, 8}));
  const TileTrial all_differ[] = {{1, true, {1.0f}}, {2, true, {2.0f}}};
  EXPECT_EQ(ChooseRowTiles(all_differ).decode, (Sizes{2}));
}

TEST(ChooseRowTilesTest, LeavesOutWhatDependsOnThePosition) {
  const TileTrial trials[] = {
      {1, true, {1.0f}}, {2, false, {1.0f}}, {4, true, {1.0f}}};
  EXPECT_EQ(ChooseRowTiles(trials).decode, (Sizes{1, 4}));
  const TileTrial none[] = {{2, false, {1.0f}}};
  EXPECT_EQ(ChooseRowTiles(none).decode, Sizes{});
  EXPECT_EQ(ChooseRowTiles(none).prefill, Sizes{});
  EXPECT_EQ(ChooseRowTiles({}).decode, Sizes{});
}

TEST(ChooseRowTilesTest, ComparesBitsNotValues) {
  const TileTrial trials[] = {{1, true, {0.0f}}, {2, true, {-0.0f}}};
  EXPECT_EQ(ChooseRowTiles(trials).decode, (Sizes{2}));
}

TEST(ChooseRowTilesTest, LargeSizesJoinWhereTheyAreEqual) {
  const TileTrial trials[] = {{1, true, {2.0f}},
                              {16, true, {1.0f}},
                              {64, true, {1.0f}},
                              {128, true, {1.0f}},
                              {256, false, {1.0f}}};
  const RowTiles tiles = ChooseRowTiles(trials);
  EXPECT_EQ(tiles.decode, (Sizes{16, 64, 128}));
  EXPECT_EQ(tiles.prefill, (Sizes{16, 64, 128}));
}

TEST(ChooseRowTilesTest, LargeSizesThatDifferAreForPrefill) {
  const TileTrial trials[] = {{8, true, {2.0f}},   {16, true, {1.0f}},
                              {64, true, {1.0f}},  {128, true, {2.0f}},
                              {256, true, {3.0f}}, {512, true, {2.0f}}};
  const RowTiles tiles = ChooseRowTiles(trials);
  EXPECT_EQ(tiles.decode, (Sizes{16, 64}));
  EXPECT_EQ(tiles.prefill, (Sizes{8, 128, 512}));
}

TEST(ChooseRowTilesTest, PrefillDoesNotPadToLargeSizesAlone) {
  const TileTrial trials[] = {{16, true, {1.0f}},
                              {64, true, {1.0f}},
                              {128, false, {1.0f}},
                              {256, true, {1.0f}},
                              {512, true, {2.0f}}};
  const RowTiles tiles = ChooseRowTiles(trials);
  EXPECT_EQ(tiles.decode, (Sizes{16, 64, 256}));
  EXPECT_EQ(tiles.prefill, (Sizes{16, 64, 256}));
}

TEST(ChooseRowTilesTest, LargeSizesAloneAreForPrefillWhereDecodeHasOnlySmall) {
  const TileTrial trials[] = {
      {4, true, {1.0f}}, {8, true, {1.0f}}, {512, true, {2.0f}}};
  const RowTiles tiles = ChooseRowTiles(trials);
  EXPECT_EQ(tiles.decode, (Sizes{4, 8}));
  EXPECT_EQ(tiles.prefill, (Sizes{512}));
}

TEST(ChooseRowTilesTest, DecodeTakesLargeTilesWhereThereAreNoOthers) {
  const TileTrial trials[] = {
      {16, false, {1.0f}}, {128, true, {1.0f}}, {256, true, {2.0f}}};
  const RowTiles tiles = ChooseRowTiles(trials);
  EXPECT_EQ(tiles.decode, (Sizes{256}));
  EXPECT_EQ(tiles.prefill, (Sizes{256}));
}

TEST(PlanRowsTest, CoversTheRowsWithTheLargestTilesAndOneForTheRest) {
  const Sizes sizes = {4, 16, 64};
  for (size_t rows = 1; rows <= 300; ++rows) {
    const RowPlan plan = PlanRows(sizes, rows);
    size_t padded = 0;
    size_t whole = 0;
    for (size_t tile = 0; tile < plan.tiles; ++tile) {
      const size_t left = rows - tile * 64;
      const size_t size = sizes[TileFor(sizes, left)];
      EXPECT_TRUE(size >= left || size == 64);
      padded += size;
      if (left >= size) whole += size;
    }
    EXPECT_EQ(plan.padded, padded) << rows;
    EXPECT_EQ(plan.whole, whole) << rows;
    EXPECT_GE(plan.padded, rows);
  }
}

TEST(PlanRowsTest, TakesTheSmallestTileThatHoldsTheRest) {
  const Sizes sizes = {1, 2, 8};
  EXPECT_EQ(TileFor(sizes, 1), 0u);
  EXPECT_EQ(TileFor(sizes, 2), 1u);
  EXPECT_EQ(TileFor(sizes, 3), 2u);
  EXPECT_EQ(TileFor(sizes, 100), 2u);
}

static_assert(ColumnsPerBlock(2048, 2048, DType::kF32) == 64);
static_assert(ColumnsPerBlock(2048, 2048, DType::kBf16) == 128);
static_assert(ColumnsPerBlock(512, 8192, DType::kF32) == 256);

TEST(ColumnBlocksTest, AreOneToFourGrainsForEveryShape) {
  for (size_t in = 1; in < 200'000; in = in * 3 + 1) {
    for (size_t out = 1; out < 200'000; out = out * 3 + 1) {
      for (const DType dtype : {DType::kF32, DType::kBf16}) {
        const size_t width = ColumnsPerBlock(in, out, dtype);
        EXPECT_EQ(width % 64, 0u);
        EXPECT_GE(width, 64u);
        EXPECT_LE(width, 256u);
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::tiling_test
