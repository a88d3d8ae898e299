// Goal: requests arrive as the options say, to the time, and what cannot be
// meant is refused. Method: times compared with the integral of the rate, which
// is known for stages; Poisson processes by their counts over many seeds.
#include "client/load/arrivals.h"

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::arrivals_test {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> Seconds(Arrivals& arrivals, size_t most) {
  std::vector<double> times;
  while (times.size() < most) {
    const auto next = arrivals.Next();
    if (!next) break;
    times.push_back(duration<double>(*next).count());
  }
  return times;
}

std::vector<Stage> Stages(const std::string& text) {
  return ParseStages(text).value();
}

std::string StageError(const std::string& text) {
  return std::string(ParseStages(text).status().message());
}

TEST(ArrivalsTest, AConstantRateDoesNotDrift) {
  const auto arrivals = MakeRateArrivals(3, ArrivalProcess::kConstant, 1);
  const auto times = Seconds(*arrivals, 3000001);
  EXPECT_DOUBLE_EQ(times[0], 0);
  EXPECT_NEAR(times[1], 1.0 / 3, 1e-9);
  EXPECT_NEAR(times[3000000], 1e6, 1e-8);
}

TEST(ArrivalsTest, ARampHasItsArrivalsWhereTheIntegralSays) {
  // From 0 to 10 within 10 s: t^2 / 2 arrivals until t.
  const auto stages = Stages("10s:10");
  const auto ramp = MakeStageArrivals(stages, ArrivalProcess::kConstant, 1);
  const auto times = Seconds(*ramp, 1000);
  ASSERT_EQ(times.size(), 50u);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_NEAR(times[i], std::sqrt(2 * static_cast<double>(i + 1)), 1e-8);
  }
}

TEST(ArrivalsTest, StagesJumpHoldAndFall) {
  // 20 in a second of 20/s, none in a second of nothing, 1 in the fall.
  const auto stages = Stages("0s:20,1s:20,0s:0,1s:0,0s:2,1s:0");
  const auto arrivals = MakeStageArrivals(stages, ArrivalProcess::kConstant, 1);
  const auto times = Seconds(*arrivals, 1000);
  ASSERT_EQ(times.size(), 21u);
  EXPECT_NEAR(times[0], 0.05, 1e-8);
  EXPECT_NEAR(times[19], 1, 1e-8);
  EXPECT_NEAR(times[20], 3, 1e-4);
  EXPECT_FALSE(arrivals->Next());
}

TEST(ArrivalsTest, PoissonStagesHaveTheirRateOnAverage) {
  const auto stages = Stages("10s:20,10s:20");
  constexpr int kRuns = 200;
  double first = 0;
  double second = 0;
  for (int seed = 1; seed <= kRuns; ++seed) {
    const auto arrivals = MakeStageArrivals(stages, ArrivalProcess::kPoisson,
                                            static_cast<uint64_t>(seed));
    double last = 0;
    for (const double time : Seconds(*arrivals, 10000)) {
      EXPECT_GE(time, last);
      last = time;
      (time < 10 ? first : second) += 1.0 / kRuns;
    }
  }
  // 100 and 200 are expected; five standard deviations of the means.
  EXPECT_NEAR(first, 100, 5 * std::sqrt(100.0 / kRuns));
  EXPECT_NEAR(second, 200, 5 * std::sqrt(200.0 / kRuns));
}

TEST(ArrivalsTest, ATraceIsFollowedToItsEnd) {
  const auto times = ParseTrace("# seconds\n0\n0.5\r\n\n0.5\n2e0\n");
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_THAT(*times, ElementsAre(nanoseconds(0), milliseconds(500),
                                  milliseconds(500), milliseconds(2000)));
  const auto arrivals = MakeTraceArrivals(*times);
  EXPECT_THAT(Seconds(*arrivals, 10), ElementsAre(0, 0.5, 0.5, 2));
  EXPECT_FALSE(arrivals->Next());
}

TEST(ArrivalsTest, TracesThatCannotBeMeantAreRefused) {
  for (const char* text : {"1\n0.5\n", "1\nsoon\n", "0\n-1\n", "0\nnan\n",
                           "0\n1e300\n", "0\n0 16 32\n"}) {
    EXPECT_THAT(std::string(ParseTrace(text).status().message()),
                HasSubstr("line 2 is '"))
        << text;
  }
  EXPECT_FALSE(ParseTrace("# nothing\n").ok());
  std::string most;
  for (size_t i = 0; i < kMaxTraceTimes; ++i) most += "0\n";
  EXPECT_TRUE(ParseTrace(most).ok());
  EXPECT_THAT(std::string(ParseTrace(most + "0\n").status().message()),
              HasSubstr("more than 1000000"));
}

TEST(ArrivalsTest, StagesAreReadAsTheyAreWritten) {
  EXPECT_EQ(ToString(Stages("10s:5,500ms:20,0s:0.5")), "10s:5,500ms:20,0:0.5");
  EXPECT_EQ(TotalDuration(Stages("10s:5,500ms:20")), absl::Milliseconds(10500));
}

TEST(ArrivalsTest, StagesThatCannotBeMeantAreRefused) {
  EXPECT_THAT(StageError("10s"), HasSubstr("'10s' is not DURATION:RATE"));
  EXPECT_THAT(StageError("10:5"), HasSubstr("'10:5' is not"));
  EXPECT_THAT(StageError("10s:5,,5s:2"), HasSubstr("'' is not"));
  EXPECT_THAT(StageError("-10s:5"), HasSubstr("must be 0 to 8760h"));
  EXPECT_THAT(StageError("1s:nan"), HasSubstr("'1s:nan'"));
  EXPECT_THAT(StageError("1s:1e9"), HasSubstr("the rate 0 to 1000000"));
  EXPECT_THAT(StageError("10s:0"), HasSubstr("a rate above 0"));
  EXPECT_THAT(StageError("0s:10"), HasSubstr("more than no time"));
  std::string many = "1s:1";
  for (int i = 1; i < 100; ++i) many += ",1s:1";
  EXPECT_EQ(StageError(many), "");
  EXPECT_EQ(StageError(many + ",1s:1"), "more than 100 stages");
}

}  // namespace
}  // namespace steadystate::client::arrivals_test
