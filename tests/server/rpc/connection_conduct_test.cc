// Goal: only what no client has reason for is judged so.
#include "server/rpc/connection_conduct.h"

#include <optional>

#include "gtest/gtest.h"

namespace steadystate::connection_conduct_test {
namespace {

constexpr ConductLimits kLimits = {.open_calls = 100,
                                   .resets = 1000,
                                   .resets_per_second = 100,
                                   .bytes_per_call = 1 << 20,
                                   .unfinished = 0};  // not judged here

// A connection that does things, some time after the last.
class Conduct {
 public:
  std::optional<ConnectionCut> After(std::chrono::milliseconds time) {
    now_ += time;
    return conduct_.Judge(now_, bytes, activity, kLimits);
  }

  uint64_t unfinished() const { return conduct_.unfinished(); }

  uint64_t bytes = 0;
  ConnectionActivity activity;

 private:
  ConnectionConduct conduct_;
  ConnectionConduct::Clock::time_point now_;
};

constexpr std::chrono::milliseconds kSoon(200);

TEST(ConnectionConductTest, ResetsAreBounded) {
  Conduct conduct;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.activity.calls_begun = conduct.activity.calls_reset = 1000;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.activity.calls_begun = conduct.activity.calls_reset = 1100;
  EXPECT_EQ(conduct.After(kSoon), ConnectionCut::kResets);
}

TEST(ConnectionConductTest, WhatIsBegunBeyondTheOpenCallsIsReset) {
  Conduct conduct;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.activity.calls_begun = 1100;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  // It does not count again when gRPC counts it.
  conduct.activity.calls_reset = 1000;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.activity.calls_begun = 1200;
  EXPECT_EQ(conduct.After(kSoon), ConnectionCut::kResets);
}

TEST(ConnectionConductTest, TimeMakesUpForResets) {
  Conduct conduct;
  for (int second = 0; second < 1000; ++second) {
    conduct.activity.calls_begun += 100;
    conduct.activity.calls_reset += 100;
    ASSERT_EQ(conduct.After(std::chrono::seconds(1)), std::nullopt) << second;
  }
}

TEST(ConnectionConductTest, AnswersMakeUpForResets) {
  Conduct conduct;
  for (int i = 0; i < 1000; ++i) {
    conduct.activity.calls_begun += 1000;
    conduct.activity.calls_reset += 800;
    conduct.activity.calls_answered += 200;
    ASSERT_EQ(conduct.After(kSoon), std::nullopt) << i;
  }
  // What was made up for before does not count later.
  conduct.activity.calls_reset += 1100;
  EXPECT_EQ(conduct.After(kSoon), ConnectionCut::kResets);
}

TEST(ConnectionConductTest, BytesWithoutACallAreBounded) {
  Conduct conduct;
  conduct.bytes = 1 << 20;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.bytes += 1;
  EXPECT_EQ(conduct.After(kSoon), ConnectionCut::kBytes);
}

TEST(ConnectionConductTest, EveryOpenCallMayHaveAMessageOnItsWay) {
  Conduct conduct;
  conduct.activity.calls_begun = 10;
  conduct.bytes = 1000;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.bytes += 10 << 20;
  EXPECT_EQ(conduct.After(kSoon), std::nullopt);
  conduct.bytes += 1;
  EXPECT_EQ(conduct.After(kSoon), ConnectionCut::kBytes);
}

TEST(ConnectionConductTest, MessagesAreProgress) {
  Conduct conduct;
  conduct.activity.calls_begun = 1;
  for (int i = 0; i < 1000; ++i) {
    conduct.bytes += 1 << 20;
    ++conduct.activity.messages;
    ASSERT_EQ(conduct.After(kSoon), std::nullopt) << i;
  }
}

constexpr uint64_t kMiB = 1 << 20;

TEST(ConnectionConductTest, WhatIsNotTakenIsUnfinished) {
  Conduct conduct;
  conduct.activity.calls_begun = 4;
  conduct.bytes = 3 * kMiB;
  conduct.After(kSoon);
  EXPECT_NEAR(static_cast<double>(conduct.unfinished()), 3 * kMiB, 16 << 10);
  conduct.activity.bytes_taken = 2 * kMiB;
  conduct.activity.messages = 2;
  conduct.After(kSoon);
  EXPECT_NEAR(static_cast<double>(conduct.unfinished()), kMiB, 32 << 10);
}

TEST(ConnectionConductTest, WithoutOpenCallsNothingIsUnfinished) {
  Conduct conduct;
  conduct.activity.calls_begun = 4;
  conduct.activity.calls_answered = 3;
  conduct.bytes = 3 * kMiB;
  conduct.After(kSoon);
  EXPECT_GT(conduct.unfinished(), 0u);
  conduct.activity.calls_reset = 1;
  conduct.After(kSoon);
  EXPECT_EQ(conduct.unfinished(), 0u);
}

// As when a client tries again and again to send a message that is too long.
TEST(ConnectionConductTest, WhatIsDroppedDoesNotAddUp) {
  Conduct conduct;
  conduct.activity.calls_begun = 1;
  for (int i = 0; i < 1000; ++i) {
    conduct.activity.calls_begun += 1;
    conduct.activity.calls_answered += 1;
    conduct.bytes += 5 * kMiB;
    ASSERT_EQ(conduct.After(kSoon), std::nullopt) << i;
    ASSERT_LE(conduct.unfinished(), 2 * kMiB) << i;
  }
}

// A stream that has been open for long, with messages of each size, frames of
// 4 KiB and the headers of many calls beside it.
TEST(ConnectionConductTest, WhatGoesWithMessagesDoesNotAddUp) {
  for (const uint64_t size :
       {uint64_t{0}, uint64_t{20}, uint64_t{4096}, 4 * kMiB}) {
    Conduct conduct;
    conduct.activity.calls_begun = 1;
    for (int i = 0; i < 10'000; ++i) {
      conduct.activity.calls_begun += 1;
      conduct.activity.calls_answered += 1;
      conduct.activity.messages += 2;
      conduct.activity.bytes_taken += size;
      conduct.bytes += 400 + 5 + size + 9 * (size / 4096 + 1) + 26 + 17;
      conduct.After(kSoon);
    }
    EXPECT_LT(conduct.unfinished(), 16u << 10) << size;
  }
}

// What is forgiven of one time does not hide what comes later.
TEST(ConnectionConductTest, ManySmallMessagesDoNotMakeUpForLargeOnes) {
  Conduct conduct;
  conduct.activity.calls_begun = 1'000'000;
  conduct.activity.messages = 1'000'000;
  conduct.After(kSoon);
  conduct.bytes = 100 * kMiB;
  conduct.After(kSoon);
  EXPECT_EQ(conduct.unfinished(), 100 * kMiB);
}

}  // namespace
}  // namespace steadystate::connection_conduct_test
