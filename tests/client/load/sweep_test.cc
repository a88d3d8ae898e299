// Goal: sweeps make the runs that they should and no others, and find the knee;
// repeated runs say how sure they are. Method: runs whose results follow from
// their options, as a server of known capacity would answer; estimates against
// values of tables.
#include "client/load/sweep.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::sweep_test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// What a server of 100 requests/s and 32 tokens each, which is busy with 8
// sessions, would come to.
LoadResult ResultOf(const LoadOptions& options) {
  LoadResult result;
  result.options = options;
  result.window = absl::Seconds(10);
  result.sessions_created = result.sessions_left = options.sessions;
  const double capacity =
      std::min(100.0, 12.5 * static_cast<double>(options.sessions));
  const double rate =
      options.rate > 0 ? std::min(options.rate, capacity) : capacity;
  result.arrivals = static_cast<uint64_t>(options.rate * 10);
  Tally& tally = result.tally;
  tally.completed = tally.window_completed = static_cast<uint64_t>(rate * 10);
  tally.window_drawn_tokens = tally.completed * 32;
  const auto first = options.rate > 80 ? std::chrono::milliseconds(300)
                                       : std::chrono::milliseconds(30);
  tally.time_to_first_token.Record(first, tally.completed);
  tally.request.Record(first, tally.completed);
  const RequestTimes times{first, std::chrono::milliseconds(1), first};
  tally.window_good = options.slo.Meets(times) ? tally.completed : 0;
  return result;
}

std::vector<double> ValuesOf(const SweepResult& result) {
  std::vector<double> values;
  for (const SweepPoint& point : result.points) values.push_back(point.value);
  return values;
}

SweepResult Sweep(const LoadOptions& options, const std::string& text,
                  uint64_t repeat = 1) {
  return RunSweep(options, ParseSweep(text).value(), repeat,
                  [](const LoadOptions& one) { return ResultOf(one); })
      .value();
}

LoadOptions ManySessions() {
  LoadOptions options;
  options.sessions = 8;
  return options;
}

TEST(SweepTest, TheKneeOfRatesIsTheLastThatWasAchieved) {
  const SweepResult result = Sweep(ManySessions(), "rate:20,60,100,140");
  EXPECT_THAT(ValuesOf(result), ElementsAre(20, 60, 100, 140));
  EXPECT_EQ(result.knee, 2u);
  EXPECT_TRUE(result.complete);
  EXPECT_FALSE(Holds(result.points[3]));
  EXPECT_FALSE(result.calibration);
}

TEST(SweepTest, WithAnObjectiveTheKneeMeetsIt) {
  LoadOptions options = ManySessions();
  options.slo.time_to_first_token = absl::Milliseconds(100);
  const SweepResult result = Sweep(options, "rate:20,60,100,140");
  EXPECT_EQ(result.knee, 1u);
  EXPECT_THAT(KneeRule(result), HasSubstr("met ttft:100ms"));
  options.slo.time_to_first_token = absl::Milliseconds(1);
  EXPECT_EQ(Sweep(options, "rate:20,60").knee, std::nullopt);
}

TEST(SweepTest, PointsBelowTheKneeThatDidNotHoldAreSaid) {
  EXPECT_EQ(DescribeKnee(Sweep(ManySessions(), "rate:20,60,140")),
            "rate 60: the highest rate at which every run was valid");
  EXPECT_THAT(DescribeKnee(Sweep(ManySessions(), "rate:140,200")),
              HasSubstr("none; it would be the highest rate"));
  const auto result = RunSweep(ManySessions(), ParseSweep("rate:20,60").value(),
                               1, [](const LoadOptions& options) {
                                 LoadResult one = ResultOf(options);
                                 one.tally.window_unanswered =
                                     options.rate == 20 ? 1 : 0;
                                 return one;
                               });
  EXPECT_EQ(result->knee, 1u);
  EXPECT_THAT(DescribeKnee(*result), HasSubstr("below it 20 did not hold"));
}

TEST(SweepTest, AutomaticRatesAreSharesOfWhatAClosedLoopComesTo) {
  const SweepResult result = Sweep(ManySessions(), "rate:auto");
  ASSERT_TRUE(result.calibration);
  EXPECT_FALSE(result.calibration->options.open_loop());
  EXPECT_THAT(ValuesOf(result),
              ElementsAre(DoubleNear(20, 1e-9), DoubleNear(40, 1e-9),
                          DoubleNear(60, 1e-9), DoubleNear(75, 1e-9),
                          DoubleNear(85, 1e-9), DoubleNear(90, 1e-9),
                          DoubleNear(100, 1e-9), DoubleNear(110, 1e-9)));
  EXPECT_EQ(result.knee, 6u);
}

TEST(SweepTest, AutomaticSessionsDoubleUntilThatHelpsNoMore) {
  const SweepResult result = Sweep(LoadOptions(), "sessions:auto");
  EXPECT_THAT(ValuesOf(result), ElementsAre(1, 2, 4, 8, 16));
  EXPECT_EQ(result.knee, 3u);
  EXPECT_EQ(result.points[2].runs[0].options.sessions, 4u);
}

TEST(SweepTest, FewSessionsHaveFewStreamsAndConnections) {
  LoadOptions options;
  options.streams = 4;
  options.connections = 2;
  const SweepResult result = Sweep(options, "sessions:1,16");
  EXPECT_EQ(result.points[0].runs[0].options.streams, 1u);
  EXPECT_EQ(result.points[0].runs[0].options.connections, 1u);
  EXPECT_EQ(result.points[1].runs[0].options.streams, 4u);
  EXPECT_EQ(result.points[1].runs[0].options.connections, 2u);
}

TEST(SweepTest, RepeatedRunsHaveSeedsOfTheirOwn) {
  const SweepResult result = Sweep(ManySessions(), "rate:20,40", 3);
  for (const SweepPoint& point : result.points) {
    ASSERT_THAT(point.runs, SizeIs(3));
    for (uint64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(point.runs[i].options.seed, 1 + i);
    }
  }
  const Figure tokens = Figures(result.options)[0];
  EXPECT_EQ(EstimateOf(result.points[0], tokens).mean, 640);
  EXPECT_EQ(EstimateOf(result.points[0], tokens).half_width, 0);
}

TEST(SweepTest, AnInterruptionEndsItWithWhatThereIs) {
  int runs = 0;
  const auto result =
      RunSweep(ManySessions(), ParseSweep("rate:20,40,60").value(), 2,
               [&runs](const LoadOptions& options) {
                 LoadResult one = ResultOf(options);
                 one.interrupted = ++runs == 3;
                 return one;
               });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(runs, 3);
  EXPECT_TRUE(result->interrupted);
  EXPECT_FALSE(result->complete);
  EXPECT_THAT(ValuesOf(*result), ElementsAre(20, 40));
  EXPECT_THAT(result->points[1].runs, SizeIs(1));
}

TEST(SweepTest, AnErrorEndsIt) {
  const auto result =
      RunSweep(ManySessions(), ParseSweep("rate:auto").value(), 1,
               [](const LoadOptions&) -> absl::StatusOr<LoadResult> {
                 return absl::UnavailableError("gone");
               });
  EXPECT_EQ(result.status(), absl::UnavailableError("gone"));
}

TEST(SweepTest, WhatCannotBeMeantIsRefused) {
  const auto error = [](const std::string& text) {
    return std::string(ParseSweep(text).status().message());
  };
  EXPECT_EQ(error("rate:auto"), "");
  EXPECT_EQ(error("rate:0.5,1"), "");
  for (const char* text : {"", "rate", "rate:", "speed:1,2", "1,2"}) {
    EXPECT_THAT(error(text), HasSubstr("is neither rate:R1,R2")) << text;
  }
  EXPECT_THAT(error("rate:2,1"), HasSubstr("'1' of"));
  EXPECT_THAT(error("rate:0,1"), HasSubstr("'0' of"));
  EXPECT_THAT(error("rate:inf"), HasSubstr("'inf' of"));
  EXPECT_THAT(error("sessions:1.5"), HasSubstr("a whole number above 0"));
  std::string many = "sessions:1";
  for (int i = 2; i <= 33; ++i) many += "," + std::to_string(i);
  EXPECT_EQ(error(many), "more than 32 values");
}

TEST(EstimateTest, MeansHaveTheirConfidence) {
  EXPECT_EQ(EstimateMean({}).count, 0u);
  const Estimate one = EstimateMean({5});
  EXPECT_EQ(one.mean, 5);
  EXPECT_FALSE(one.half_width);
  const Estimate three = EstimateMean({9, 10, 11});
  EXPECT_DOUBLE_EQ(three.mean, 10);
  // 4.303 * 1 / sqrt(3).
  EXPECT_NEAR(*three.half_width, 2.484, 0.001);
}

TEST(EstimateTest, DifferencesHaveThatOfWelch) {
  const Estimate a = EstimateMean({9, 10, 11});
  const Estimate b = EstimateMean({12, 14, 16});
  // Of 1/3 + 4/3 with 2.94 degrees of freedom, taken as 2.
  EXPECT_NEAR(*DifferenceHalfWidth(a, b), 4.303 * std::sqrt(5.0 / 3), 0.001);
  EXPECT_FALSE(DifferenceHalfWidth(a, EstimateMean({1})));
  EXPECT_EQ(DifferenceHalfWidth(EstimateMean({1, 1}), EstimateMean({2, 2})), 0);
}

}  // namespace
}  // namespace steadystate::client::sweep_test
