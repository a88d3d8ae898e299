// Goal: whoever takes or gives something bit by bit is known to stand still, or
// to be behind what others may expect. Method: times that are given.
#include "server/rpc/pace.h"

#include "gtest/gtest.h"
#include "server/base/error.h"

namespace steadystate::pace_test {
namespace {

constexpr size_t kOfASecond = size_t{kLeastBytesPerSecond};

SteadyTime After(absl::Duration time) { return SteadyTime::FromZero(time); }

TEST(PaceTest, NobodyIsLateWhoHasNothingToDo) {
  Pace pace;
  EXPECT_FALSE(pace.Stands(After(absl::Hours(1))));
  EXPECT_FALSE(pace.Lags(After(absl::Hours(1))));
  pace.Begin(After(absl::ZeroDuration()));
  pace.Rest();
  EXPECT_FALSE(pace.Stands(After(absl::Hours(1))));
  EXPECT_FALSE(pace.Lags(After(absl::Hours(1))));
}

TEST(PaceTest, WhoDoesNothingStandsAndLags) {
  Pace pace;
  pace.Begin(After(absl::Seconds(5)));
  const SteadyTime end = After(absl::Seconds(5) + kMaxStandstill);
  EXPECT_FALSE(pace.Stands(end - absl::Nanoseconds(1)));
  EXPECT_FALSE(pace.Lags(end - absl::Nanoseconds(1)));
  EXPECT_TRUE(pace.Stands(end));
  EXPECT_TRUE(pace.Lags(end));
}

TEST(PaceTest, DribblingIsNoStandstillAndLags) {
  Pace pace;
  pace.Begin(After(absl::ZeroDuration()));
  SteadyTime now = After(absl::ZeroDuration());
  // Half of what it has to do, second after second.
  int seconds = 0;
  for (; seconds < 1000 && !pace.Lags(now); ++seconds) {
    now = now + absl::Seconds(1);
    EXPECT_FALSE(pace.Stands(now));
    pace.Move(kOfASecond / 2, now);
  }
  EXPECT_EQ(absl::Seconds(seconds), 2 * kMaxStandstill);
}

TEST(PaceTest, TheLeastRateIsEnough) {
  Pace pace;
  SteadyTime now = After(absl::ZeroDuration());
  pace.Begin(now);
  for (int seconds = 0; seconds < 1000; ++seconds) {
    now = now + absl::Seconds(1);
    ASSERT_FALSE(pace.Lags(now)) << seconds;
    pace.Move(kOfASecond, now);
  }
}

TEST(PaceTest, HasteDoesNotMakeUpForAPauseAfterIt) {
  Pace pace;
  pace.Begin(After(absl::ZeroDuration()));
  pace.Move(1000 * kOfASecond, After(absl::Seconds(1)));
  EXPECT_FALSE(pace.Lags(After(absl::Seconds(30))));
  EXPECT_TRUE(pace.Lags(After(absl::Seconds(31))));
}

TEST(PaceTest, SaysWhatToDo) {
  const absl::Status status = TooSlow("take");
  EXPECT_EQ(GetErrorDetails(status)->reason, ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(status.message(),
            "others wait for the memory that the snapshot takes: take at least "
            "256 KiB of it a second, or come back when fewer do");
}

}  // namespace
}  // namespace steadystate::pace_test
