// Block widths are bounded, whole grains, and a function of the shape.

#include "kernels/linear/column_blocks.h"

#include "gtest/gtest.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
