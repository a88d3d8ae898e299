// Goal: slices of one plan never overlap, whatever the number of rows, and the
// memory is as large as the largest plan. Method: plans by hand; each slice is
// filled with a number of its own, and all are looked at afterwards.
#include "server/model/scratch_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::scratch_plan_test {
namespace {

using testing::Each;

TEST(RowScratchPlanTest, SlicesOfABatchDoNotOverlap) {
  ScratchSize size;
  RowScratchPlan plan(size);
  const std::vector<size_t> widths = {3, 0, 5, 1};
  std::vector<RowSlice> slices;
  for (const size_t width : widths) slices.push_back(plan.Add(width));
  ASSERT_EQ(size.row_floats, 9u);
  for (const size_t rows : {1u, 4u}) {
    std::vector<float> memory(rows * size.row_floats, -1);
    const RowScratch scratch(memory.data(), rows);
    for (size_t i = 0; i < slices.size(); ++i) {
      std::fill_n(scratch[slices[i]], rows * widths[i], static_cast<float>(i));
    }
    for (size_t i = 0; i < slices.size(); ++i) {
      const float* slice = scratch[slices[i]];
      EXPECT_THAT(std::vector<float>(slice, slice + rows * widths[i]),
                  Each(static_cast<float>(i)));
    }
    EXPECT_EQ(std::count(memory.begin(), memory.end(), -1), 0);
  }
}

TEST(RowScratchPlanTest, TheLargestPlanDecides) {
  ScratchSize size;
  RowScratchPlan(size).Add(7);
  RowScratchPlan first(size), second(size);
  first.Add(4);
  second.Add(9);
  first.Add(4);
  EXPECT_EQ(size.row_floats, 9u);
  EXPECT_EQ(size.worker_floats, 0u);
}

TEST(WorkerScratchPlanTest, SlicesOfAnyTypeLieInLinesOfTheirOwn) {
  ScratchSize size;
  WorkerScratchPlan plan(size);
  const auto bits = plan.Add<uint32_t>(3);
  const auto nothing = plan.Add(0);
  const auto doubles = plan.Add<double>(9);
  const auto floats = plan.Add(16);
  ASSERT_EQ(size.worker_floats, 16u + 32 + 16);
  std::vector<float> memory(size.worker_floats);
  const WorkerScratch scratch(memory.data());
  std::fill_n(scratch[bits], 3, 0xffffffffu);
  std::fill_n(scratch[doubles], 9, 0.5);
  std::fill_n(scratch[floats], 16, 2.0f);
  EXPECT_THAT(std::vector<uint32_t>(scratch[bits], scratch[bits] + 3),
              Each(0xffffffffu));
  EXPECT_THAT(std::vector<double>(scratch[doubles], scratch[doubles] + 9),
              Each(0.5));
  EXPECT_EQ(scratch[nothing], memory.data() + 16);
  EXPECT_EQ(scratch[floats], memory.data() + 48);
}

TEST(WorkerScratchPlanTest, PlansShareTheMemory) {
  ScratchSize size;
  WorkerScratchPlan first(size), second(size);
  const auto a = first.Add(20);
  const auto b = second.Add(20);
  EXPECT_EQ(size.worker_floats, 32u);
  std::vector<float> memory(size.worker_floats);
  const WorkerScratch scratch(memory.data());
  EXPECT_EQ(scratch[a], scratch[b]);
}

}  // namespace
}  // namespace steadystate::scratch_plan_test
