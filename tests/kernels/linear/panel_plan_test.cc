// Goal: of the plans for a block the one is found that gives the expected bits,
// and none where none does. Method: the expected results are made with a plan
// of each order of sums and length of chunks.
#include "kernels/linear/panel_plan.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/trials.h"

namespace steadystate::panel_plan_test {
namespace {

class PanelPlanTest : public testing::TestWithParam<DType> {
 protected:
  static constexpr size_t kIn = 2304;
  static constexpr size_t kWidth = 90;

  PanelPlanTest() : trials_(kIn, kWidth, GetParam()) {
    const size_t panel_bytes = kIn * SizeOf(GetParam()) * kPanelColumns;
    EXPECT_TRUE(weights_.Allocate(2 * panel_bytes));
    EXPECT_TRUE(scratch_.Allocate(kPanelScratchBytes));
    const TileTrials columns(kIn, 2 * kPanelColumns, GetParam());
    std::memcpy(weights_.data(), columns.weights(), 2 * panel_bytes);
    block_ = {GetParam(), kIn, kWidth, panel_bytes, weights_.data()};
  }

  void SetUp() override {
    if (orders_.empty()) {
      GTEST_SKIP() << "this CPU has no such instructions";
    }
  }

  // What rows give with chunks of `chunk` steps.
  std::vector<float> ResultsOf(MultiplyPanel multiply, size_t chunk) {
    const PanelPlan plan = {multiply, chunk, SIZE_MAX};
    return trials_
        .Try(1,
             [&](const void* x, float* y) {
               MultiplyPanels(plan, block_, 1, static_cast<const std::byte*>(x),
                              scratch_.data(),
                              [&](size_t, size_t, size_t column, size_t width,
                                  const std::byte* sums) {
                                std::memcpy(y + column, sums, width * 4);
                              });
             })
        .results;
  }

  // Of loops with the same bits the fastest is found.
  static bool SameBits(const std::vector<float>& a,
                       const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  const std::vector<PanelLoop> orders_ = FindPanelLoops(GetParam());
  const TileTrials trials_;
  AlignedBytes weights_;
  AlignedBytes scratch_;
  PanelBlock block_;
};

TEST_P(PanelPlanTest, FindsTheOrderAndTheChunksThatGiveTheSameBits) {
  for (const PanelLoop& loop : orders_) {
    for (const size_t elements : {size_t{512}, size_t{1024}, size_t{2048}}) {
      const size_t chunk = elements / ElementsPerStep(GetParam());
      const std::vector<float> results = ResultsOf(loop.multiply, chunk);
      const PanelPlan plan =
          FindEqualPlan(block_, trials_, results, {SIZE_MAX, 63});
      EXPECT_EQ(plan.chunk, chunk);
      EXPECT_TRUE(SameBits(ResultsOf(plan.multiply, chunk), results));
      EXPECT_TRUE(plan.Takes(1));
      EXPECT_EQ(plan.Takes(64), plan.max_rows == SIZE_MAX);
      EXPECT_TRUE(plan.multiply == loop.multiply || plan.max_rows == 63);
    }
  }
}

TEST_P(PanelPlanTest, UsesAmxOnlyWhereItMay) {
  for (const PanelLoop& loop : orders_) {
    const std::vector<float> results = ResultsOf(loop.multiply, kPanelSlab);
    const PanelPlan plan = FindEqualPlan(block_, trials_, results, {9, 0});
    EXPECT_EQ(plan.max_rows, 9u);
    for (const PanelLoop& other : orders_) {
      EXPECT_FALSE(other.amx && other.multiply == plan.multiply);
    }
  }
}

TEST_P(PanelPlanTest, FindsNoneForOtherBits) {
  for (const PanelLoop& loop : orders_) {
    std::vector<float> results = ResultsOf(loop.multiply, kPanelSlab);
    results[kWidth - 1] = std::nextafter(results[kWidth - 1], HUGE_VALF);
    EXPECT_FALSE(
        FindEqualPlan(block_, trials_, results, {SIZE_MAX, SIZE_MAX}).Takes(1));
  }
}

// Panels of bytes: four inputs of 64 columns after each other.
class ExactPlanTest : public testing::Test {
 protected:
  static constexpr size_t kIn = 520;
  static constexpr size_t kWidth = 90;
  static constexpr size_t kPanelBytes = kIn * kPanelColumns;

  ExactPlanTest() {
    EXPECT_TRUE(weights_.Allocate(PanelsFor(kWidth) * kPanelBytes));
    std::memset(weights_.data(), 0, weights_.size());
    for (size_t j = 0; j < kWidth; ++j) {
      std::byte* const panel =
          weights_.data() + j / kPanelColumns * kPanelBytes;
      for (size_t i = 0; i < kIn; i += 4) {
        std::memcpy(panel + i * kPanelColumns + j % kPanelColumns * 4,
                    trials_.weights() + j * kIn + i, 4);
      }
    }
  }

  PanelPlan Find() const {
    return FindExactPlan(
        {DType::kI8, kIn, kWidth, kPanelBytes, weights_.data()}, trials_,
        {7, 7});
  }

  const IntegerTrials trials_{kIn, kWidth, 255};
  AlignedBytes weights_;
};

TEST_F(ExactPlanTest, IsFoundWhereTheSumsAreRight) {
  if (FindPanelLoops(DType::kI8).empty()) {
    GTEST_SKIP() << "this CPU has no such instructions";
  }
  EXPECT_TRUE(Find().Takes(7));
  EXPECT_FALSE(Find().Takes(8));
}

TEST_F(ExactPlanTest, IsNoneWhereTheWeightsLieOtherwise) {
  // Two inputs of a column whose numbers are not all the same.
  std::byte* const column = weights_.data() + 6 * 4;
  ASSERT_NE(column[1], column[2]);
  std::swap(column[1], column[2]);
  EXPECT_FALSE(Find().Takes(1));
}

INSTANTIATE_TEST_SUITE_P(Floats, PanelPlanTest,
                         testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& type) {
                           return std::string(Name(type.param));
                         });

}  // namespace
}  // namespace steadystate::panel_plan_test
