// Goal: a session that was taken back, or made of another one as it was, goes
// on whatever comes between that and its next request: a store that fails, a
// server of other numerics, a process that ends.
// Method: engines with a store in memory that is made to fail at one place,
// while the thread that uses it is held.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/base/error.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_way_back_test {
namespace {

class EngineWayBackTest : public testing::TestWithParam<Durability> {
 protected:
  EngineWayBackTest() {
    options_.durability = GetParam();
    harness_.emplace(options_, SharedTinyModel(), &store_);
  }

  // Ends as a process does that is asked to, and begins with other bits.
  void RestartWithOtherNumerics() {
    ASSERT_EQ(harness_->engine().StoreSessions(absl::Seconds(60)), 0u);
    harness_.reset();
    options_.prefill_chunk_rows = 32;
    harness_.emplace(options_, SharedTinyModel(), &store_);
  }

  Future<absl::Status> Begin(const std::string& session, WorkRequest work) {
    return harness_->WorkAsync(session, std::move(work));
  }

  absl::Status Rewind(const std::string& session, const PastPoint& to) {
    return Begin(session, harness_->engine().RewindWork(
                              to, std::make_shared<SessionInfo>()))
        .Get();
  }

  Future<absl::Status> BeginFork(const std::string& session, ForkOptions fork) {
    return Begin(session, harness_->engine().ForkWork(
                              std::move(fork), std::make_shared<Forks>()));
  }

  SessionInfo Info(const std::string& session) {
    const auto info = harness_->engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  EngineOptions options_;
  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

std::string NameOf(const testing::TestParamInfo<Durability>& tested) {
  return tested.param == Durability::kLog ? "log" : "shutdown";
}

INSTANTIATE_TEST_SUITE_P(Durabilities, EngineWayBackTest,
                         testing::Values(Durability::kShutdown,
                                         Durability::kLog),
                         NameOf);

// What the store has is not what it was last known to have.
TEST_P(EngineWayBackTest, AWriteThatFailedAndCameToPassAllTheSameLeadsNowhere) {
  harness_->CreateSession("s");
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2, 3, 4, 5})).ok());
  EngineHarness alone;
  alone.CreateSession("s");
  ASSERT_TRUE(alone.Step(StepOf("s", {1, 2, 3, 4, 5})).ok());
  const auto hibernate = [this] { return harness_->Hibernate("s").ok(); };
  ASSERT_TRUE(hibernate());
  for (const int32_t token : {6, 7, 8, 9, 10, 11}) {
    ASSERT_TRUE(harness_->Step(StepOf("s", {token})).ok());
    if (token > 8) continue;
    ASSERT_TRUE(alone.Step(StepOf("s", {token})).ok());
  }
  store_.FailWritesAfterThem(true);
  EXPECT_FALSE(hibernate());
  store_.FailWritesAfterThem(false);
  ForkOptions fork;
  fork.ids = {"copy"};
  fork.at.position = 8;
  const absl::Status forked = BeginFork("s", fork).Get();
  EXPECT_TRUE(forked.ok()) << forked;
  const absl::Status rewound = Rewind("s", {.position = 8});
  EXPECT_TRUE(rewound.ok()) << rewound;
  const auto expected = alone.Step(StepOf("s", {12}));
  for (const char* session : {"copy", "s"}) {
    const auto step = harness_->Step(StepOf(session, {12}));
    ASSERT_TRUE(step.ok()) << step.status();
    EXPECT_EQ(step->position, 9u);
    EXPECT_EQ(step->logits, expected->logits);
  }
}

// Whoever has guessed its name finds it when it is safe, or not at all.
TEST_P(EngineWayBackTest, ACopyThatTheStoreFailsIsNotThere) {
  harness_->CreateSession("s");
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2, 3, 4})).ok());
  EngineHarness alone;
  alone.CreateSession("s");
  ASSERT_TRUE(alone.Step(StepOf("s", {1, 2})).ok());
  ForkOptions fork;
  fork.ids = {"copy"};
  fork.at.position = 2;
  {
    ThreadHold hold("SessionSaver::Put");
    const Future<absl::Status> forked = BeginFork("s", fork);
    hold.WaitUntilHeld();
    EXPECT_EQ(ReasonOf(harness_->Step(StepOf("copy", {5})).status()),
              ErrorReason::kSessionNotFound);
    store_.FailWrites(true);
    hold.Release();
    EXPECT_EQ(ReasonOf(forked.Get()), ErrorReason::kStoreUnavailable);
  }
  store_.FailWrites(false);
  harness_->clock().Advance(absl::Seconds(2));
  EXPECT_EQ(ReasonOf(harness_->Step(StepOf("copy", {5})).status()),
            ErrorReason::kSessionNotFound);
  ASSERT_TRUE(BeginFork("s", fork).Get().ok());
  const auto next = harness_->Step(StepOf("copy", {6}));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->logits, alone.Step(StepOf("s", {6}))->logits);
}

// A kill must not make a session older than its client was told.
TEST_P(EngineWayBackTest, WhenASessionWentBackItWasUsed) {
  harness_->CreateSession("s");
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2, 3})).ok());
  const absl::Duration ttl = Info("s").ttl;
  harness_->clock().Advance(ttl - absl::Seconds(1));
  ASSERT_TRUE(Rewind("s", {.position = 2}).ok());
  const absl::Time used = Info("s").last_step_time;
  harness_.reset();
  ManualClock later;
  later.Advance(ttl + absl::Seconds(1));
  Metrics metrics("tiny");
  const auto next =
      Engine::Create(options_, SharedTinyModel(), later, metrics, &store_);
  ASSERT_TRUE(next.ok()) << next.status();
  const absl::StatusOr<SessionInfo> found = (*next)->GetSession("s");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->last_step_time, used);
  EXPECT_EQ(found->position, 2u);
}

TEST_P(EngineWayBackTest, AServerOfOtherNumericsGoesOn) {
  harness_->CreateSession("s");
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2})).ok());
  ASSERT_TRUE(harness_->Step(StepOf("s", {3, 4})).ok());
  ASSERT_TRUE(Rewind("s", {.position = 3}).ok());
  RestartWithOtherNumerics();
  EXPECT_EQ(Info("s").position, 3u);
  const auto next = harness_->Step(StepOf("s", {5}));
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->position, 4u);
  EXPECT_TRUE(Info("s").other_numerics);
  // And so does the next one.
  RestartWithOtherNumerics();
  EXPECT_TRUE(harness_->Step(StepOf("s", {6})).ok());
}

TEST_P(EngineWayBackTest, ACheckpointOfOtherNumericsSaysSo) {
  harness_->CreateSession("s");
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2})).ok());
  ForkOptions keep;
  keep.checkpoints = true;
  keep.ids = {CheckpointId("c")};
  ASSERT_TRUE(BeginFork("s", keep).Get().ok());
  RestartWithOtherNumerics();
  harness_->CreateSession("t");
  ASSERT_TRUE(Rewind("t", {.checkpoint = CheckpointId("c")}).ok());
  EXPECT_EQ(Info("t").position, 2u);
  EXPECT_TRUE(Info("t").other_numerics);
}

TEST_P(EngineWayBackTest, WhatIsMadeOfACheckpointIsKeptAsNewSessionsAre) {
  SessionOptions fleeting;
  fleeting.id = "s";
  fleeting.durability = Durability::kNone;
  ASSERT_TRUE(harness_->engine().CreateSession(fleeting).ok());
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2})).ok());
  ForkOptions keep;
  keep.checkpoints = true;
  keep.ids = {CheckpointId("c")};
  ASSERT_TRUE(BeginFork("s", keep).Get().ok());
  ForkOptions fork;
  fork.ids = {"t"};
  ASSERT_TRUE(BeginFork(CheckpointId("c"), fork).Get().ok());
  EXPECT_EQ(Info("t").durability, GetParam());
  fork.ids = {"u"};
  ASSERT_TRUE(BeginFork("s", fork).Get().ok());
  EXPECT_EQ(Info("u").durability, Durability::kNone);
  RestartWithOtherNumerics();
  EXPECT_EQ(Info(CheckpointId("c")).position, 2u);
}

// A repeat of it would go on where it ended.
TEST_P(EngineWayBackTest, ARequestThatWasTakenBackIsNotTakenUpAgain) {
  options_.snapshots = 4;
  options_.history = 64;
  options_.prefill_chunk_rows = 16;
  harness_.emplace(options_);
  SessionOptions in_memory;
  in_memory.id = "s";
  in_memory.durability = Durability::kNone;
  ASSERT_FALSE(!harness_->engine().CreateSession(in_memory).ok());
  GenerateRequest prompt = GenerateOf("s", MakeTokens(64, 1), 0);
  prompt.request_id = "r";
  prompt.expected_position = 0;
  ASSERT_TRUE(harness_->Generate(prompt)->done().Get().ok());
  // A state is kept there, within the request.
  ASSERT_TRUE(Rewind("s", {.position = 32}).ok());
  const auto repeat = harness_->Generate(prompt)->done().Get();
  EXPECT_EQ(ReasonOf(repeat.status()), ErrorReason::kPositionMismatch);
}

TEST_P(EngineWayBackTest, WhatFailedIsPutRightWithoutARequest) {
  if (GetParam() != Durability::kLog) GTEST_SKIP() << "not logged";
  harness_->CreateSession("s");
  ASSERT_TRUE(harness_->Step(StepOf("s", {1, 2, 3, 4})).ok());
  // It is written all the same.
  store_.FailWritesAfterThem(true);
  EXPECT_EQ(ReasonOf(Rewind("s", {.position = 0})),
            ErrorReason::kStoreUnavailable);
  store_.FailWritesAfterThem(false);
  const size_t puts = store_.puts();
  harness_->clock().Advance(absl::Seconds(2));
  while (store_.puts() == puts) std::this_thread::yield();
  harness_.emplace(options_, SharedTinyModel(), &store_);
  EXPECT_EQ(Info("s").position, 4u);
}

}  // namespace
}  // namespace steadystate::engine_way_back_test
