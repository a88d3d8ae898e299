// Goal: only what no client has reason for is judged so.
#include "server/rpc/connection_conduct.h"

#include <optional>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

constexpr ConductLimits kLimits = {.open_calls = 100,
                                   .resets = 1000,
                                   .resets_per_second = 100,
                                   .bytes_per_call = 1 << 20};

// A connection that does things, some time after the last.
class Conduct {
 public:
  std::optional<ConnectionCut> After(std::chrono::milliseconds time) {
    now_ += time;
    return conduct_.Judge(now_, bytes, activity, kLimits);
  }

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

}  // namespace
}  // namespace steadystate
