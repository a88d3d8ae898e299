// Goal: the compute thread waits for those it has answered exactly as long as
// return_window.h says. Method: the decisions, gap by gap.
#include "server/engine/return_window.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

constexpr absl::Duration kBatch = absl::Milliseconds(16);

// Opens it after a batch and lets nobody come. Returns the gaps waited.
int GapsWithoutReturns(ReturnWindow& window) {
  window.Open(kBatch, 64);
  int gaps = 0;
  while (window.StaysOpen(0)) ++gaps;
  return gaps;
}

TEST(ReturnWindowTest, WaitsForAllASixteenthOfTheBatchAtATime) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  ASSERT_TRUE(window.StaysOpen(10));
  EXPECT_EQ(window.wanted(), 64u);
  EXPECT_EQ(window.gap(), kBatch / 16);
  ASSERT_TRUE(window.StaysOpen(40));
  EXPECT_FALSE(window.StaysOpen(64));
}

TEST(ReturnWindowTest, DoesNotWaitForThoseWhoAreThere) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  EXPECT_FALSE(window.StaysOpen(64));
  window.Open(kBatch, 1);
  EXPECT_FALSE(window.StaysOpen(2));
}

TEST(ReturnWindowTest, WaitsForNobodyWhenNobodyWasAnswered) {
  ReturnWindow window;
  window.Open(kBatch, 0);
  EXPECT_FALSE(window.StaysOpen(0));
}

TEST(ReturnWindowTest, ClosesWhenTooFewCome) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  ASSERT_TRUE(window.StaysOpen(10));
  ASSERT_TRUE(window.StaysOpen(18));
  EXPECT_FALSE(window.StaysOpen(25));
}

TEST(ReturnWindowTest, ClosesAfterAQuarterOfTheTimeOfTheBatch) {
  ReturnWindow window;
  window.Open(kBatch, 64);
  size_t there = 0;
  for (int gap = 0; gap < 4; ++gap, there += 9) {
    ASSERT_TRUE(window.StaysOpen(there)) << gap;
  }
  EXPECT_FALSE(window.StaysOpen(there));
}

TEST(ReturnWindowTest, WaitsNotForBatchesTooShortAndNotLongerThanTwoMs) {
  ReturnWindow window;
  window.Open(absl::Microseconds(700), 64);
  EXPECT_FALSE(window.StaysOpen(0));
  window.Open(absl::Seconds(1), 64);
  ASSERT_TRUE(window.StaysOpen(0));
  EXPECT_EQ(window.gap(), absl::Milliseconds(2));
}

TEST(ReturnWindowTest, WaitsMoreSeldomWhileNobodyReturns) {
  ReturnWindow window;
  for (const int skipped : {1, 3, 7, 15, 31, 63, 63}) {
    ASSERT_EQ(GapsWithoutReturns(window), 1);
    for (int i = 0; i < skipped; ++i) {
      ASSERT_EQ(GapsWithoutReturns(window), 0) << i << " of " << skipped;
    }
  }
}

TEST(ReturnWindowTest, WaitsEachTimeAgainOnceSomeHaveReturned) {
  ReturnWindow window;
  ASSERT_EQ(GapsWithoutReturns(window), 1);
  ASSERT_EQ(GapsWithoutReturns(window), 0);
  window.Open(kBatch, 64);
  ASSERT_TRUE(window.StaysOpen(0));
  ASSERT_TRUE(window.StaysOpen(8));
  ASSERT_FALSE(window.StaysOpen(9));
  EXPECT_EQ(GapsWithoutReturns(window), 1);
  EXPECT_EQ(GapsWithoutReturns(window), 0);
  EXPECT_EQ(GapsWithoutReturns(window), 1);
}

}  // namespace
}  // namespace steadystate
