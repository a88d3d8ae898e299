// Goal: how fast a store is is told from what it takes, and measuring that has
// an end on a slow disk. Method: a store whose
// writes take their time by a clock that the test sets.
#include "server/session/store_rate.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/testing/manual_clock.h"
#include "tests/testing/slow_store.h"

namespace steadystate::store_rate_test {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(StoreRateTest, NothingIsKnownBeforeAnythingIsWritten) {
  const StoreRate rate;
  EXPECT_EQ(rate.bytes_per_second(), 0);
  EXPECT_EQ(rate.TimeFor(kMiB), absl::ZeroDuration());
}

TEST(StoreRateTest, SyncsCountWithWhatTheyAreFor) {
  StoreRate rate;
  rate.Note(kMiB, absl::Seconds(1));
  EXPECT_EQ(rate.bytes_per_second(), kMiB);
  rate.Note(0, absl::Seconds(3));
  EXPECT_EQ(rate.bytes_per_second(), kMiB / 4.0);
  EXPECT_EQ(rate.TimeFor(2 * kMiB), absl::Seconds(8));
}

TEST(StoreRateTest, WhatIsLongAgoCountsLess) {
  StoreRate rate;
  rate.Note(kMiB, absl::Seconds(1));
  for (int i = 0; i < 4096; ++i) rate.Note(kMiB, absl::Milliseconds(1));
  EXPECT_NEAR(rate.bytes_per_second(), 1000.0 * kMiB, 10.0 * kMiB);
}

TEST(StoreRateTest, AMeasurementTakesAsMuchAsThereIsTimeFor) {
  ManualClock clock;
  SlowStore store(absl::Milliseconds(6), absl::Milliseconds(4));
  store.UseClock(clock);
  StoreRate rate;
  ASSERT_TRUE(MeasureStore(store, 1, clock, rate).ok());
  EXPECT_EQ(store.tries(), 10u);
  EXPECT_EQ(store.bytes(), 10 * kMiB);
  EXPECT_NEAR(rate.bytes_per_second(), 100.0 * kMiB, 1.0);
}

TEST(StoreRateTest, AMeasurementWritesABoundedNumberOfBytes) {
  ManualClock clock;
  SlowStore store(absl::Microseconds(1), absl::ZeroDuration());
  store.UseClock(clock);
  StoreRate rate;
  ASSERT_TRUE(MeasureStore(store, 3 * kMiB, clock, rate).ok());
  EXPECT_EQ(store.bytes(), 30 * kMiB);
}

// It is tried once in any case, and with no more than some MiB.
TEST(StoreRateTest, AMeasurementOfASlowDiskHasAnEnd) {
  ManualClock clock;
  SlowStore store(absl::Seconds(1), absl::Seconds(2));
  store.UseClock(clock);
  StoreRate rate;
  ASSERT_TRUE(MeasureStore(store, 1000 * kMiB, clock, rate).ok());
  EXPECT_EQ(store.tries(), 1u);
  EXPECT_EQ(store.bytes(), 8 * kMiB);
}

TEST(StoreRateTest, AStoreThatFailsIsNoMeasure) {
  ManualClock clock;
  SlowStore store(absl::Milliseconds(10), absl::ZeroDuration());
  store.UseClock(clock);
  store.FailWrites(true);
  StoreRate rate;
  EXPECT_TRUE(absl::IsUnavailable(MeasureStore(store, kMiB, clock, rate)));
  EXPECT_EQ(rate.bytes_per_second(), 0);
}

}  // namespace
}  // namespace steadystate::store_rate_test
