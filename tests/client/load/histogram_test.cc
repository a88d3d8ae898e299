// Goal: quantiles within 1 % whatever the samples, histograms that add up, and
// timelines of any length in a memory of fixed size. Method: random samples
// over nine decades, against sorting them; runs that grow beyond the slots.
#include "client/load/histogram.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include "client/load/timeline.h"
#include "gtest/gtest.h"

namespace steadystate::client::histogram_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr double kQuantiles[] = {0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
constexpr uint64_t kSeed = 20;

std::vector<nanoseconds> Samples(size_t count) {
  std::mt19937_64 random(kSeed);
  std::uniform_real_distribution<double> exponent(0, 12);
  std::vector<nanoseconds> samples;
  for (size_t i = 0; i < count; ++i) {
    samples.emplace_back(std::llround(std::pow(10, exponent(random))));
  }
  return samples;
}

nanoseconds ExactQuantile(std::vector<nanoseconds> samples, double quantile) {
  std::sort(samples.begin(), samples.end());
  const auto rank = static_cast<size_t>(
      std::ceil(quantile * static_cast<double>(samples.size())));
  return samples[std::max<size_t>(rank, 1) - 1];
}

TEST(HistogramTest, QuantilesAreWithinOnePercent) {
  for (const size_t count : {1u, 2u, 10u, 999u, 100000u}) {
    const std::vector<nanoseconds> samples = Samples(count);
    Histogram histogram;
    for (const nanoseconds sample : samples) histogram.Record(sample);
    for (const double quantile : kQuantiles) {
      const auto exact =
          static_cast<double>(ExactQuantile(samples, quantile).count());
      EXPECT_NEAR(static_cast<double>(histogram.Quantile(quantile).count()),
                  exact, 0.01 * exact)
          << count << " samples of seed " << kSeed << ", quantile " << quantile;
    }
  }
}

TEST(HistogramTest, EachNanosecondUpTo127IsExact) {
  for (int i = 0; i < 128; ++i) {
    Histogram histogram;
    histogram.Record(nanoseconds(i));
    histogram.Record(nanoseconds(1000000));
    EXPECT_EQ(histogram.Quantile(0.5), nanoseconds(i));
  }
}

TEST(HistogramTest, BoundariesOfBucketsAreWithinOnePercent) {
  for (int shift = 0; shift < 40; ++shift) {
    for (const int64_t offset : {-1, 0, 1}) {
      const int64_t value = (int64_t{1} << shift) + offset;
      Histogram histogram;
      histogram.Record(nanoseconds(value));
      // So that the maximum does not make it exact.
      histogram.Record(nanoseconds(int64_t{1} << 41));
      EXPECT_NEAR(static_cast<double>(histogram.Quantile(0.5).count()),
                  static_cast<double>(value),
                  0.01 * static_cast<double>(value));
    }
  }
}

TEST(HistogramTest, MergingIsTheSameAsRecordingAll) {
  const std::vector<nanoseconds> samples = Samples(3000);
  Histogram all;
  Histogram parts[3];
  for (size_t i = 0; i < samples.size(); ++i) {
    all.Record(samples[i]);
    parts[i % 3].Record(samples[i]);
  }
  Histogram merged;
  for (const Histogram& part : parts) merged.Merge(part);
  EXPECT_EQ(merged.count(), all.count());
  EXPECT_EQ(merged.max(), all.max());
  EXPECT_NEAR(static_cast<double>(merged.mean().count()),
              static_cast<double>(all.mean().count()), 1);
  for (const double quantile : kQuantiles) {
    EXPECT_EQ(merged.Quantile(quantile), all.Quantile(quantile));
  }
}

TEST(HistogramTest, CountMaximumAndMeanAreExact) {
  Histogram histogram;
  histogram.Record(nanoseconds(1000003), 3);
  histogram.Record(nanoseconds(4000001));
  EXPECT_EQ(histogram.count(), 4u);
  EXPECT_EQ(histogram.max(), nanoseconds(4000001));
  EXPECT_EQ(histogram.mean(), nanoseconds(1750003));
}

TEST(HistogramTest, NothingRecordedIsZero) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0u);
  EXPECT_EQ(histogram.Quantile(0.99), nanoseconds(0));
  EXPECT_EQ(histogram.max(), nanoseconds(0));
  EXPECT_EQ(histogram.mean(), nanoseconds(0));
}

TEST(HistogramTest, ExtremesStayInRange) {
  Histogram histogram;
  histogram.Record(nanoseconds(-5));
  EXPECT_EQ(histogram.Quantile(1), nanoseconds(0));
  histogram.Record(nanoseconds::max());
  EXPECT_EQ(histogram.Quantile(1), nanoseconds::max());
  EXPECT_EQ(histogram.Quantile(0.5), nanoseconds(0));
}

TEST(HistogramTest, ACoarseOneIsWithinSevenPercent) {
  const std::vector<nanoseconds> samples = Samples(1000);
  CoarseHistogram histogram;
  for (const nanoseconds sample : samples) histogram.Record(sample);
  for (const double quantile : kQuantiles) {
    const auto exact =
        static_cast<double>(ExactQuantile(samples, quantile).count());
    EXPECT_NEAR(static_cast<double>(histogram.Quantile(quantile).count()),
                exact, 0.07 * exact);
  }
}

uint64_t TokensOf(const Timeline& timeline) {
  uint64_t tokens = 0;
  for (const TimelineSlot& slot : timeline.slots()) tokens += slot.drawn_tokens;
  return tokens;
}

TEST(TimelineTest, SlotsSayWhenThingsHappened) {
  Timeline timeline;
  timeline.At(milliseconds(10)).drawn_tokens += 3;
  timeline.At(milliseconds(510)).drawn_tokens += 4;
  timeline.At(-milliseconds(1)).failed += 1;
  EXPECT_EQ(timeline.slot_length(), milliseconds(250));
  ASSERT_EQ(timeline.slots().size(), 3u);
  EXPECT_EQ(timeline.slots()[0].drawn_tokens, 3u);
  EXPECT_EQ(timeline.slots()[0].failed, 1u);
  EXPECT_EQ(timeline.slots()[1].drawn_tokens, 0u);
  EXPECT_EQ(timeline.slots()[2].drawn_tokens, 4u);
}

TEST(TimelineTest, LongRunsHaveLongerSlotsAndLoseNothing) {
  Timeline timeline;
  for (int second = 0; second < 3600; ++second) {
    TimelineSlot& slot = timeline.At(std::chrono::seconds(second));
    slot.drawn_tokens += 1;
    slot.inter_token.Record(nanoseconds(second));
    ASSERT_LE(timeline.slots().size(), Timeline::kMaxSlots);
  }
  EXPECT_EQ(TokensOf(timeline), 3600u);
  // 60 slots of 64 s are the shortest that reach.
  EXPECT_EQ(timeline.slot_length(), std::chrono::seconds(64));
  EXPECT_EQ(timeline.slots()[10].drawn_tokens, 64u);
  EXPECT_EQ(timeline.slots()[10].inter_token.count(), 64u);
}

TEST(TimelineTest, ThoseOfDifferentLengthsAddUp) {
  Timeline brief;
  brief.At(milliseconds(300)).completed += 5;
  Timeline lengthy;
  lengthy.At(std::chrono::seconds(100)).completed += 7;
  Timeline merged;
  merged.Merge(brief);
  merged.Merge(lengthy);
  merged.Merge(Timeline());
  EXPECT_EQ(merged.slot_length(), lengthy.slot_length());
  EXPECT_EQ(merged.slots().front().completed, 5u);
  EXPECT_EQ(merged.slots().back().completed, 7u);
  lengthy.Merge(brief);
  EXPECT_EQ(lengthy.slots().front().completed, 5u);
}

}  // namespace
}  // namespace steadystate::client::histogram_test
