// Goal: a session that a request makes for its writer is one like others until
// the writer ends; then it is gone, whoever uses it, and no store has ever had
// it. Method: with a store and without; steps are compared with those of an
// ordinary session.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/session/session_id.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"

namespace steadystate::engine_ephemeral_test {
namespace {

constexpr size_t kInMemory = 6;

EngineOptions SmallOptions() {
  EngineOptions options;
  options.durability = Durability::kLog;
  options.state_memory_bytes =
      kInMemory * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
  return options;
}

class EngineEphemeralTest : public testing::TestWithParam<bool> {
 protected:
  EngineEphemeralTest() {
    EngineOptions options = SmallOptions();
    if (!HasStore()) options.durability = Durability::kNone;
    harness_.emplace(options, SharedTinyModel(),
                     HasStore() ? &store_ : nullptr);
    writer_ = engine().NewWriter();
  }

  bool HasStore() const { return GetParam(); }
  Engine& engine() { return harness_->engine(); }

  StepRequest Ephemeral(const std::string& session,
                        std::vector<int32_t> tokens) {
    StepRequest request = StepOf(session, std::move(tokens));
    request.ephemeral = true;
    request.writer = writer_;
    return request;
  }
  // As its writer sends it.
  absl::StatusOr<StepRecord> Step(const StepRequest& request) {
    return harness_->StepAsync(request).Get();
  }

  size_t CountSessions() {
    return engine().ListSessions(1000, "")->sessions.size();
  }
  void AwaitSessions(size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (CountSessions() != count) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << CountSessions();
      std::this_thread::yield();
    }
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  WriterId writer_ = 0;
};

TEST_P(EngineEphemeralTest, IsMadeByItsFirstStepAndEndsWithItsWriter) {
  harness_->CreateSession("plain");
  const auto first = Step(Ephemeral("a", {1, 2, 3}));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->logits, harness_->Step(StepOf("plain", {1, 2, 3}))->logits);
  EXPECT_TRUE(engine().GetSession("a")->ephemeral);
  EXPECT_FALSE(engine().GetSession("plain")->ephemeral);
  // Idle for ever, it neither expires nor leaves memory.
  harness_->clock().Advance(absl::Minutes(50));
  EXPECT_TRUE(harness_->Step(StepOf("plain", {4})).ok());
  harness_->clock().Advance(absl::Minutes(50));
  const auto second = Step(Ephemeral("a", {4}));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->position, 4u);
  engine().EndWriter(writer_);
  AwaitSessions(1);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  // The name is free; another writer's is another session.
  writer_ = engine().NewWriter();
  EXPECT_EQ(Step(Ephemeral("a", {1}))->position, 1u);
}

TEST_P(EngineEphemeralTest, MayBeMadeWithoutAbsorbingAnything) {
  StepRequest only_makes = Ephemeral("a", {});
  only_makes.outputs = {};
  const auto made = Step(only_makes);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->position, 0u);
  EXPECT_TRUE(engine().GetSession("a")->ephemeral);
  EXPECT_EQ(engine().GetSession("a")->position, 0u);
  // Others use it; made again it is as it is.
  EXPECT_EQ(harness_->Step(StepOf("a", {1, 2}))->position, 2u);
  StepRequest again = only_makes;
  again.expected_position = 2;
  again.request_id = "again";
  EXPECT_EQ(Step(again)->position, 2u);
  EXPECT_FALSE(Step(again)->replayed);
  again.expected_position = 0;
  EXPECT_EQ(ReasonOf(Step(again).status()), ErrorReason::kPositionMismatch);
  engine().EndWriter(writer_);
  AwaitSessions(0);
}

TEST_P(EngineEphemeralTest, NobodyElsesSessionIsTakenForIt) {
  harness_->CreateSession("plain");
  EXPECT_EQ(ReasonOf(Step(Ephemeral("plain", {1})).status()),
            ErrorReason::kSessionAlreadyExists);
  ASSERT_TRUE(Step(Ephemeral("a", {1})).ok());
  const WriterId first = writer_;
  writer_ = engine().NewWriter();
  EXPECT_EQ(ReasonOf(Step(Ephemeral("a", {1})).status()),
            ErrorReason::kSessionAlreadyExists);
  // Who ends has made nothing.
  engine().EndWriter(writer_);
  EXPECT_EQ(harness_->Step(StepOf("a", {1}))->position, 2u);
  engine().EndWriter(first);
  AwaitSessions(1);
}

TEST_P(EngineEphemeralTest, WhatIsRefusedMakesNothing) {
  StepRequest wrong = Ephemeral("a", {-1});
  EXPECT_EQ(ReasonOf(Step(wrong).status()), ErrorReason::kTokenOutOfRange);
  StepRequest late = Ephemeral("a", {1});
  late.deadline = harness_->clock().Now();
  EXPECT_EQ(ReasonOf(Step(late).status()), ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(CountSessions(), 0u);
}

// What is only found out when its turn comes.
TEST_P(EngineEphemeralTest, WhatIsRefusedLaterLeavesNothing) {
  StepRequest elsewhere = Ephemeral("a", {1});
  elsewhere.expected_position = 5;
  EXPECT_EQ(ReasonOf(Step(elsewhere).status()), ErrorReason::kPositionMismatch);
  AwaitSessions(0);
  // One that would have made it as well makes it, one that would not is told.
  StepFuture refused, behind, made;
  {
    ComputeHold hold(*harness_);
    refused = harness_->StepAsync(elsewhere);
    StepRequest uses = StepOf("a", {1});
    uses.writer = writer_;
    behind = harness_->StepAsync(uses);
    made = harness_->StepAsync(Ephemeral("a", {1, 2}));
  }
  EXPECT_EQ(ReasonOf(refused.Get().status()), ErrorReason::kPositionMismatch);
  EXPECT_EQ(ReasonOf(behind.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(made.Get()->position, 2u);
  EXPECT_TRUE(engine().GetSession("a")->ephemeral);
  // It stays where something was absorbed before.
  EXPECT_EQ(ReasonOf(Step(elsewhere).status()), ErrorReason::kPositionMismatch);
  EXPECT_EQ(engine().GetSession("a")->position, 2u);
}

TEST_P(EngineEphemeralTest, ASequenceThatStartsThereIsNoStreams) {
  ASSERT_TRUE(Step(Ephemeral("a", {1, 2})).ok());
  StepRequest start = StepOf("a", {3});
  start.starts = true;
  start.writer = engine().NewWriter();
  EXPECT_EQ(harness_->StepAsync(start).Get()->position, 1u);
  EXPECT_FALSE(engine().GetSession("a")->ephemeral);
  engine().EndWriter(writer_);
  EXPECT_EQ(harness_->Step(StepOf("a", {4}))->position, 2u);
  harness_->clock().Advance(engine().options().session_ttl);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionExpired);
}

TEST_P(EngineEphemeralTest, AStepThatUsesItEndsWithIt) {
  const StepFuture step = [&] {
    ComputeHold hold(*harness_);
    StepFuture begun = harness_->StepAsync(Ephemeral("a", {1}));
    engine().EndWriter(writer_);
    return begun;
  }();
  // It was computed before, or is gone.
  const auto& result = step.Get();
  if (!result.ok()) {
    EXPECT_EQ(ReasonOf(result.status()), ErrorReason::kSessionNotFound);
  }
  AwaitSessions(1);  // that of the hold
}

TEST_P(EngineEphemeralTest, ManyEndTogetherAndGiveTheirMemoryBack) {
  const size_t most = HasStore() ? kInMemory / 2 : kInMemory;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < most; ++i) {
      const auto step = Step(Ephemeral(absl::StrCat("e", i), {1}));
      ASSERT_TRUE(step.ok()) << step.status();
    }
    // With a store, others need slots to wake in.
    const absl::Status refused = Step(Ephemeral("more", {1})).status();
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kStateBudgetExhausted);
    EXPECT_TRUE(GetErrorDetails(refused)->retry_after.has_value());
    if (HasStore()) {
      for (int i = 0; i < 12; ++i) {
        const std::string id = absl::StrCat("s", round, "-", i);
        harness_->CreateSession(id);
        EXPECT_TRUE(harness_->Step(StepOf(id, {1})).ok());
      }
    }
    engine().EndWriter(writer_);
    AwaitSessions(HasStore() ? 12 * static_cast<size_t>(round + 1) : 0);
    writer_ = engine().NewWriter();
  }
}

TEST_P(EngineEphemeralTest, GoesBackAsFarAsItRemembers) {
  ASSERT_TRUE(Step(Ephemeral("a", {1, 2})).ok());
  const auto then = Step(Ephemeral("a", {3}));
  ASSERT_TRUE(Step(Ephemeral("a", {4, 5})).ok());
  const auto info = std::make_shared<SessionInfo>();
  ASSERT_TRUE(
      harness_->Work("a", engine().RewindWork({.position = 2}, info)).ok());
  EXPECT_EQ(Step(Ephemeral("a", {3}))->logits, then->logits);
  // A copy of it is an ordinary session.
  ForkOptions fork;
  fork.ids = {"copy"};
  ASSERT_TRUE(
      harness_->Work("a", engine().ForkWork(fork, std::make_shared<Forks>()))
          .ok());
  engine().EndWriter(writer_);
  AwaitSessions(1);
  EXPECT_EQ(harness_->Step(StepOf("copy", {6}))->position, 4u);
}

TEST_P(EngineEphemeralTest, NoStoreEverHasIt) {
  if (!HasStore()) GTEST_SKIP() << "there is no store to have it";
  ASSERT_TRUE(Step(Ephemeral("a", MakeTokens(40, 1))).ok());
  Future<absl::Status> done;
  EXPECT_EQ(ReasonOf(engine().HibernateSession(
                "a", [done](const absl::Status& status) { done.Set(status); })),
            ErrorReason::kInvalidArgument);
  // Others press for its memory.
  for (int i = 0; i < 20; ++i) {
    const std::string id = absl::StrCat("s", i);
    harness_->CreateSession(id);
    EXPECT_TRUE(harness_->Step(StepOf(id, {1})).ok());
  }
  const auto info = std::make_shared<SessionInfo>();
  ASSERT_TRUE(
      harness_->Work("a", engine().RewindWork({.position = 30}, info)).ok());
  ASSERT_TRUE(Step(Ephemeral("a", {1})).ok());
  ASSERT_TRUE(engine().StoreSessions(absl::Minutes(1)).has_value());
  harness_.reset();
  harness_.emplace(SmallOptions(), SharedTinyModel(), &store_);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(CountSessions(), 20u);
  EXPECT_EQ(store_.size(), 20u);
}

TEST_P(EngineEphemeralTest, WhatIsMadeOfItLivesAsLongAsANewSession) {
  ASSERT_TRUE(Step(Ephemeral("a", {1, 2})).ok());
  EXPECT_EQ(engine().GetSession("a")->ttl, absl::InfiniteDuration());
  ForkOptions fork;
  fork.ids = {"fork"};
  if (HasStore()) fork.durability = Durability::kShutdown;
  ASSERT_TRUE(
      harness_->Work("a", engine().ForkWork(fork, std::make_shared<Forks>()))
          .ok());
  fork.ids = {CheckpointId("c")};
  fork.checkpoints = true;
  ASSERT_TRUE(
      harness_->Work("a", engine().ForkWork(fork, std::make_shared<Forks>()))
          .ok());
  const auto exported = std::make_shared<Engine::Export>();
  ASSERT_TRUE(harness_->Work("a", engine().ExportWork(exported)).ok());
  SessionOptions options;
  options.id = "import";
  if (HasStore()) options.durability = Durability::kShutdown;
  const absl::Status imported =
      harness_->Work("", engine().ImportWork(exported->snapshot, options,
                                             std::make_shared<SessionInfo>()));
  ASSERT_TRUE(imported.ok()) << imported;
  for (const char* const id : {"fork", "import"}) {
    EXPECT_EQ(engine().GetSession(id)->ttl, engine().options().session_ttl)
        << id;
    if (!HasStore()) continue;
    Future<absl::Status> slept;
    ASSERT_TRUE(
        engine()
            .HibernateSession(
                id, [slept](const absl::Status& status) { slept.Set(status); })
            .ok());
    ASSERT_TRUE(slept.Get().ok()) << slept.Get();
    const auto woken = harness_->Step(StepOf(id, {3}));
    EXPECT_TRUE(woken.ok()) << id << woken.status();
  }
  harness_->clock().Advance(engine().options().session_ttl);
  for (const char* const id : {"fork", "import"}) {
    EXPECT_EQ(ReasonOf(engine().GetSession(id).status()),
              ErrorReason::kSessionExpired);
  }
  EXPECT_TRUE(engine().GetSession(CheckpointId("c")).ok());
  EXPECT_TRUE(engine().GetSession("a").ok());
}

TEST_P(EngineEphemeralTest, AStepWaitsNoLongerThanItsTimeout) {
  harness_->CreateSession("a");
  StepRequest step = StepOf("a", {1});
  step.timeout = absl::Seconds(5);
  EXPECT_TRUE(harness_->Step(step).ok());
  StepFuture late = [&] {
    ComputeHold hold(*harness_);
    StepFuture waiting = harness_->StepAsync(step);
    harness_->clock().Advance(absl::Seconds(6));
    return waiting;
  }();
  EXPECT_EQ(ReasonOf(late.Get().status()), ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(harness_->Position("a"), 1u);
}

INSTANTIATE_TEST_SUITE_P(Stores, EngineEphemeralTest, testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "WithAStore" : "InMemory";
                         });

}  // namespace
}  // namespace steadystate::engine_ephemeral_test
