// Goal: a chunk of a prompt is as large as this machine's projections are fast
// with, and never larger than a batch. Method: reports that are made up.
#include "server/engine/prefill_chunk.h"

#include <vector>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

using Sizes = std::vector<size_t>;

LinearReport ReportOf(const std::vector<Sizes>& prefill_tiles) {
  LinearReport report;
  for (const Sizes& tiles : prefill_tiles) {
    report.shapes.push_back({.in = 64,
                             .block = 64,
                             .decode_tiles = {1, 64},
                             .prefill_tiles = tiles,
                             .implementation = "made up"});
  }
  return report;
}

TEST(PrefillChunkTest, Is64WhereNoTileIsLarger) {
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 2, 64}, {4, 48}}), 256), 64u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{4}, {}}), 256), 64u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({}), 256), 64u);
}

TEST(PrefillChunkTest, IsTheLargestTileOfPromptsUpTo256) {
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 64}, {64, 128}}), 256), 128u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{128, 256}, {1, 64}}), 256), 256u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{128, 512}}), 65536), 256u);
}

TEST(PrefillChunkTest, FitsABatch) {
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 512}}), 100), 100u);
  EXPECT_EQ(PrefillChunkRowsFor(ReportOf({{1, 64}}), 1), 1u);
}

}  // namespace
}  // namespace steadystate
