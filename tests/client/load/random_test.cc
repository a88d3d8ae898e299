// Goal: arrivals that are a Poisson process, the same for the same seed.
// Method: the distribution of many gaps against the exponential one.
#include "client/load/random.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate::client::random_test {
namespace {

using std::chrono::nanoseconds;

constexpr double kRate = 1000;
constexpr size_t kCount = 100000;

std::vector<double> GapsInSeconds(uint64_t seed) {
  PoissonArrivals arrivals(kRate, seed);
  std::vector<double> gaps;
  nanoseconds last(0);
  for (size_t i = 0; i < kCount; ++i) {
    const nanoseconds next = arrivals.Next();
    EXPECT_GE(next, last);
    gaps.push_back(std::chrono::duration<double>(next - last).count());
    last = next;
  }
  return gaps;
}

TEST(PoissonArrivalsTest, GapsAreExponential) {
  for (const uint64_t seed : {1u, 2u, 3u}) {
    std::vector<double> gaps = GapsInSeconds(seed);
    std::sort(gaps.begin(), gaps.end());
    // Kolmogorov and Smirnov: beyond 1.95 / sqrt(n) once in a thousand.
    double distance = 0;
    for (size_t i = 0; i < gaps.size(); ++i) {
      const double expected = 1 - std::exp(-gaps[i] * kRate);
      const double seen = static_cast<double>(i + 1) / kCount;
      distance = std::max(distance, std::abs(seen - expected));
    }
    EXPECT_LT(distance, 1.95 / std::sqrt(kCount)) << "seed " << seed;
  }
}

TEST(PoissonArrivalsTest, GapsDoNotDependOnEachOther) {
  const std::vector<double> gaps = GapsInSeconds(4);
  double product = 0;
  for (size_t i = 1; i < gaps.size(); ++i) {
    product += (gaps[i] * kRate - 1) * (gaps[i - 1] * kRate - 1);
  }
  // The correlation of neighbours; its standard deviation is 1 / sqrt(n).
  EXPECT_LT(std::abs(product / kCount), 4 / std::sqrt(kCount));
}

TEST(PoissonArrivalsTest, TheSeedDecides) {
  EXPECT_EQ(GapsInSeconds(7), GapsInSeconds(7));
  EXPECT_NE(GapsInSeconds(7), GapsInSeconds(8));
}

TEST(PoissonArrivalsTest, TheSlowestRateFitsTheClock) {
  PoissonArrivals arrivals(1e-300, 1);
  EXPECT_GT(arrivals.Next(), nanoseconds(0));
  EXPECT_EQ(arrivals.Next(), arrivals.Next());
}

}  // namespace
}  // namespace steadystate::client::random_test
