#include "server/base/log_limiter.h"

#include <optional>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

TEST(LogLimiterTest, AdmitsSoManyLinesOfEachSpanAndTellsWhatItLeftOut) {
  LogLimiter limiter;
  LogLimiter::Time now{};
  for (int i = 0; i < LogLimiter::kLines; ++i)
    EXPECT_EQ(limiter.Admit(now), 0u);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limiter.Admit(now), std::nullopt);
  now += LogLimiter::kSpan - std::chrono::nanoseconds(1);
  EXPECT_EQ(limiter.Admit(now), std::nullopt);
  now += std::chrono::nanoseconds(1);
  EXPECT_EQ(limiter.Admit(now), 8u);
  for (int i = 1; i < LogLimiter::kLines; ++i)
    EXPECT_EQ(limiter.Admit(now), 0u);
  EXPECT_EQ(limiter.Admit(now), std::nullopt);
}

TEST(LogLimiterTest, ASpanBeginsWithItsFirstLine) {
  LogLimiter limiter;
  LogLimiter::Time now{};
  EXPECT_EQ(limiter.Admit(now), 0u);
  now += LogLimiter::kSpan * 3 / 2;
  for (int i = 0; i < LogLimiter::kLines; ++i)
    EXPECT_EQ(limiter.Admit(now), 0u);
  now += LogLimiter::kSpan * 3 / 4;
  EXPECT_EQ(limiter.Admit(now), std::nullopt);
}

}  // namespace
}  // namespace steadystate
