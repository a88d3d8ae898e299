// Goal: what is counted as a session is one: checkpoints and kept prompts have
// gauges of their own; and the estimate of a drain is about what is to be
// stored. Method: a store whose writes take their time by the engine's clock.
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/slow_store.h"

namespace steadystate::engine_gauges_test {
namespace {

constexpr size_t kInMemory = 6;
constexpr absl::Duration kPut = absl::Milliseconds(1);
constexpr char kDrain[] = "steadystate_drain_estimate_seconds";

EngineOptions SmallOptions() {
  EngineOptions options;
  options.prefill_chunk_rows = 4;
  options.state_memory_bytes =
      kInMemory * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
  return options;
}

class EngineGaugesTest : public testing::Test {
 protected:
  EngineGaugesTest() : store_(kPut, absl::ZeroDuration()) {
    harness_.emplace(SmallOptions(), SharedTinyModel(), &store_);
    store_.UseClock(harness_->clock());
  }

  Engine& engine() { return harness_->engine(); }

  absl::Status Work(const std::string& session, WorkRequest work) {
    const Future<absl::Status> done =
        harness_->WorkAsync(session, std::move(work));
    return done.Get().ok() ? absl::OkStatus() : CloneError(done.Get());
  }

  void Step(const std::string& session) {
    const auto result = harness_->Step(StepOf(session, {1, 2, 3}));
    EXPECT_TRUE(result.ok()) << result.status();
  }
  void Fork(const std::string& session, const std::string& id,
            bool checkpoint = false) {
    ForkOptions options;
    options.checkpoints = checkpoint;
    options.ids = {id};
    EXPECT_TRUE(
        Work(session, engine().ForkWork(options, std::make_shared<Forks>()))
            .ok());
  }
  void Hibernate(const std::string& session) {
    EXPECT_TRUE(harness_->Hibernate(session).ok());
  }

  double Metric(const std::vector<std::string>& parts) {
    return harness_->Metric(parts);
  }
  // Gauges are set when the keeper's thread looks at what is next.
  void Await(const std::vector<std::string>& parts, double value) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (Metric(parts) != value) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << Metric(parts);
      std::this_thread::yield();
    }
  }
  // The first session lacks storing: learns what one write takes.
  void AwaitFirstWrite() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while ((one_write_ = Metric({kDrain})) == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      std::this_thread::yield();
    }
  }
  // Waits until the estimate is that of so many writes, a minute at most.
  void AwaitWrites(int count) {
    const double seconds = count * one_write_;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (std::abs(Metric({kDrain}) - seconds) > one_write_ / 1000) {
      ASSERT_LT(std::chrono::steady_clock::now(), end)
          << Metric({kDrain}) << " instead of " << seconds;
      std::this_thread::yield();
    }
  }

  SlowStore store_;
  std::optional<EngineHarness> harness_;
  double one_write_ = 0;  // seconds
};

TEST_F(EngineGaugesTest, CheckpointsAndKeptPromptsAreNoSessions) {
  harness_->CreateSession("a");
  GenerateRequest prompt = GenerateOf("a", MakeTokens(8, 1), 1);
  prompt.reuse_prefix = true;
  EXPECT_TRUE(harness_->Generate(prompt)->done().Get().ok());
  Await({"steadystate_kept_prompts{"}, 1);
  Await({"steadystate_sessions{"}, 1);
  Fork("a", CheckpointId("c"), /*checkpoint=*/true);
  Await({"steadystate_checkpoints{"}, 1);
  Await({"steadystate_sessions{"}, 1);
  Fork("a", "b");
  Await({"steadystate_sessions{"}, 2);
  EXPECT_EQ(Metric({"steadystate_sessions_created_total"}), 2);
  EXPECT_EQ(Metric({"steadystate_forks_total"}), 1);
  // A checkpoint that a session is made of is used meanwhile.
  Fork(CheckpointId("c"), "of");
  Await({"steadystate_checkpoints{"}, 1);
  Await({"steadystate_sessions{"}, 3);
  EXPECT_EQ(Metric({"steadystate_forks_total"}), 2);
  ASSERT_TRUE(engine().DeleteSession(CheckpointId("c")).ok());
  Await({"steadystate_checkpoints{"}, 0);
  EXPECT_EQ(Metric({"steadystate_sessions_ended_total"}), 0);
  harness_->DestroyEngine();
  EXPECT_EQ(Metric({"steadystate_sessions_ended_total", "shutdown"}), 3);
}

TEST_F(EngineGaugesTest, WhatIsKeptIsCountedWhereItIs) {
  harness_->CreateSession("a");
  GenerateRequest prompt = GenerateOf("a", MakeTokens(8, 1), 1);
  prompt.reuse_prefix = true;
  EXPECT_TRUE(harness_->Generate(prompt)->done().Get().ok());
  Fork("a", CheckpointId("c"), /*checkpoint=*/true);
  Await({"steadystate_checkpoints{", "tier=\"memory\""}, 1);
  Await({"steadystate_kept_prompts{", "tier=\"memory\""}, 1);
  harness_->clock().Advance(engine().options().hibernate_after);
  Await({"steadystate_checkpoints{", "tier=\"store\""}, 1);
  Await({"steadystate_kept_prompts{", "tier=\"store\""}, 1);
  Await({"steadystate_sessions{", "hibernated"}, 1);
  EXPECT_EQ(Metric({"steadystate_checkpoints{", "tier=\"memory\""}), 0);
}

TEST_F(EngineGaugesTest, RewindsAreCounted) {
  harness_->CreateSession("a");
  Step("a");
  EXPECT_TRUE(Work("a", engine().RewindWork({.position = 0},
                                            std::make_shared<SessionInfo>()))
                  .ok());
  EXPECT_EQ(Metric({"steadystate_rewinds_total"}), 1);
  // One that fails has not been.
  EXPECT_FALSE(Work("a", engine().RewindWork({.position = 9},
                                             std::make_shared<SessionInfo>()))
                   .ok());
  EXPECT_EQ(Metric({"steadystate_rewinds_total"}), 1);
}

TEST_F(EngineGaugesTest, WhoFindsNoFreeSlotIsCountedOnce) {
  // What has no session cannot leave memory.
  for (size_t i = 0; i < kInMemory; ++i) {
    const auto paused = harness_->Score(ScoreOf("", MakeTokens(1'000'000, i)));
    paused->set_limit(2);
    paused->AwaitItems(2);
  }
  EXPECT_EQ(Metric({"steadystate_slot_waits_total"}), 0);
  harness_->CreateSession("late");
  StepRequest late = StepOf("late", {1});
  late.deadline = harness_->clock().Now() + absl::Seconds(10);
  const StepFuture answer = harness_->StepAsync(late);
  Await({"steadystate_slot_waits_total"}, 1);
  harness_->clock().Advance(absl::Seconds(11));
  EXPECT_EQ(ReasonOf(answer.Get().status()), ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(Metric({"steadystate_slot_waits_total"}), 1);
}

TEST_F(EngineGaugesTest, AFullMemoryIsEstimatedAtTheStoresRate) {
  const auto most = engine().EstimateDrain();
  ASSERT_TRUE(most.ok()) << most.status();
  // A MiB at once.
  EXPECT_NEAR(most->bytes_per_second, (1 << 20) / absl::ToDoubleSeconds(kPut),
              1.0);
  EXPECT_EQ(most->bytes % kInMemory, 0u);
  EXPECT_NEAR(static_cast<double>(most->bytes),
              most->bytes_per_second * absl::ToDoubleSeconds(most->time), 1.0);
  EXPECT_EQ(store_.size(), 0u);
  store_.FailWrites(true);
  EXPECT_TRUE(absl::IsUnavailable(engine().EstimateDrain().status()));
}

TEST_F(EngineGaugesTest, TheEstimateIsAboutWhatTheStoreLacks) {
  ASSERT_TRUE(engine().EstimateDrain().ok());
  EXPECT_EQ(Metric({kDrain}), 0);
  for (const char* session : {"a", "b"}) harness_->CreateSession(session);
  Step("a");
  AwaitFirstWrite();
  Step("b");
  Step("b");
  AwaitWrites(2);
  // Each has to be written, though they share one state.
  Fork("a", "c");
  Fork("a", "d");
  AwaitWrites(4);
  // It ends with the process in any case.
  SessionOptions fleeting;
  fleeting.id = "fleeting";
  fleeting.durability = Durability::kNone;
  ASSERT_TRUE(engine().CreateSession(fleeting).ok());
  Step("fleeting");
  harness_->CreateSession("later");
  AwaitWrites(4);
  ASSERT_TRUE(engine().DeleteSession("b").ok());
  ASSERT_TRUE(engine().DeleteSession("c").ok());
  AwaitWrites(2);
}

TEST_F(EngineGaugesTest, WhatIsStoredIsNotEstimated) {
  ASSERT_TRUE(engine().EstimateDrain().ok());
  for (const char* session : {"a", "b"}) harness_->CreateSession(session);
  Step("a");
  AwaitFirstWrite();
  Step("b");
  AwaitWrites(2);
  Hibernate("a");
  Hibernate("b");
  Await({kDrain}, 0);
  // Writing them has told more of the store.
  Step("a");
  AwaitFirstWrite();
  Step("b");
  AwaitWrites(2);
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  Await({kDrain}, 0);
}

}  // namespace
}  // namespace steadystate::engine_gauges_test
