// Goal: sleepers are woken unless bursts of calls are short, as a rule, and for
// a burst that lasts in any case. Method: calls at given times.
#include "kernels/bursts.h"

#include <chrono>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

using std::chrono::microseconds;

constexpr microseconds kGap(50);

class BurstsTest : public testing::Test {
 protected:
  // A call after `pause` that takes `time`. Are sleepers woken for it?
  bool Call(microseconds pause, microseconds time) {
    now_ += pause;
    const bool woken = bursts_.WorthWaking(now_);
    bursts_.CallEnded(now_, now_ + time);
    now_ += time;
    return woken;
  }
  // So many bursts of one call.
  void Burst(int count, microseconds time) {
    for (int i = 0; i < count; ++i) Call(10 * kGap, time);
  }

  Bursts::Clock::time_point now_{std::chrono::hours(1)};
  Bursts bursts_{kGap};
};

TEST_F(BurstsTest, WakesUntilManyBurstsWereShort) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Call(10 * kGap, microseconds(5)));
  }
  Burst(100, microseconds(5));
  EXPECT_FALSE(Call(10 * kGap, microseconds(5)));
}

TEST_F(BurstsTest, WakesOnceABurstHasLasted) {
  Burst(100, microseconds(5));
  EXPECT_FALSE(Call(10 * kGap, microseconds(60)));
  EXPECT_FALSE(Call(kGap / 2, microseconds(60)));
  EXPECT_TRUE(Call(kGap / 2, microseconds(60)));
  EXPECT_FALSE(Call(10 * kGap, microseconds(5)));
}

TEST_F(BurstsTest, WakesForEveryBurstWhereLongOnesAreTheRule) {
  Burst(100, microseconds(5));
  Burst(20, microseconds(500));
  EXPECT_TRUE(Call(10 * kGap, microseconds(5)));
}

TEST_F(BurstsTest, ALongOneAmongManyShortOnesChangesNothing) {
  Burst(100, microseconds(5));
  for (int i = 0; i < 10; ++i) {
    Burst(1, microseconds(5000));
    Burst(20, microseconds(5));
    EXPECT_FALSE(Call(10 * kGap, microseconds(5)));
  }
}

}  // namespace
}  // namespace steadystate
