// Goal: what has been answered about a logged session is there when the engine
// ends at any moment and another begins, to the byte; what is not in the log is
// not answered; a log that fails stops those sessions only, and they go on when
// it works again. Method: a store in memory that fails when it is told to, and
// that loses what was not synced; engines that end without storing anything;
// the journal's thread held before it writes.
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/error.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_log_test {
namespace {

EngineOptions Logged(Durability durability = Durability::kLog) {
  EngineOptions options;
  options.durability = durability;
  return options;
}

std::string IdOf(size_t i) { return absl::StrCat("s", i); }

StepRequest Keyed(StepRequest request, uint64_t position) {
  request.request_id = absl::StrCat("at ", position);
  request.expected_position = position;
  return request;
}

class EngineLogTest : public testing::Test {
 protected:
  EngineLogTest() { Start(); }

  void Start(const EngineOptions& options = Logged()) {
    harness_.emplace(options, SharedTinyModel(), &store_);
  }
  // Ends the engine as a kill does, as far as the store can tell, and starts
  // another one.
  void Kill(const EngineOptions& options = Logged()) {
    harness_.reset();
    Start(options);
  }

  Engine& engine() { return harness_->engine(); }

  absl::StatusOr<StepRecord> Step(StepRequest request) {
    return harness_->Step(std::move(request));
  }
  std::vector<float> Logits(const std::string& session,
                            std::vector<int32_t> tokens) {
    const auto result = Step(StepOf(session, std::move(tokens)));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->logits : std::vector<float>();
  }

  uint64_t PositionOf(const std::string& session) {
    const auto info = engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? info->position : 0;
  }

  absl::Status Do(WorkRequest work) {
    work.writer = engine().NewWriter();
    Future<absl::Status> done;
    SubmitThen(engine(), std::move(work),
               [done](const auto& end) { done.Set(end.status()); });
    return done.Get();
  }

  absl::StatusOr<SessionInfo> Create(
      const std::string& id,
      std::optional<Durability> durability = std::nullopt) {
    SessionOptions options;
    options.id = id;
    options.durability = durability;
    return harness_->Create(options);
  }

  // So many sessions, here and in another engine.
  void CreateIn(EngineHarness& other, size_t sessions) {
    for (size_t i = 0; i < sessions; ++i) {
      EXPECT_TRUE(Create(IdOf(i)).ok());
      other.CreateSession(IdOf(i));
    }
  }

  // The log is tried again when its time has come.
  void AwaitHealthy(const std::string& probe) {
    harness_->clock().Advance(absl::Seconds(1));
    while (absl::IsUnavailable(Create(probe).status())) {
      std::this_thread::yield();
    }
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineLogTest, SessionsGoOnToTheByteAfterEachOfManyKills) {
  constexpr size_t kSessions = 4;
  EngineHarness alone;
  CreateIn(alone, kSessions);
  const size_t width = SharedTinyModel()->description().hidden_size;
  std::mt19937 random(7);
  for (uint64_t step = 0; step < 120; ++step) {
    StepRequest request = StepOf(IdOf(random() % kSessions), {});
    // Some are cut into pieces.
    const size_t rows = random() % 5 == 0 ? 100 : 1 + random() % 4;
    if (random() % 4 == 0) {
      request.embeddings = std::vector<float>(rows * width, 0.25f);
      request.embeddings[step % request.embeddings.size()] = -1.5f;
    } else {
      request.tokens = MakeTokens(rows, step);
    }
    if (random() % 2 == 0) {
      request = Keyed(request, PositionOf(request.session));
    }
    const auto answer = Step(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->logits, alone.Step(request)->logits) << step;
    if (random() % 3 > 0) continue;
    Kill();
    for (size_t i = 0; i < kSessions; ++i) {
      EXPECT_EQ(PositionOf(IdOf(i)),
                alone.engine().GetSession(IdOf(i))->position);
    }
    // A kill in the middle of coming back.
    if (random() % 3 == 0) Kill();
  }
  EXPECT_GT(harness_->Metric({"steadystate_replayed_tokens_total"}), 0);
}

TEST_F(EngineLogTest, ANameIsTheLaterSessionsWhateverTheTimeOfDaySays) {
  const auto create = [&](absl::Duration ttl) {
    SessionOptions options;
    options.id = "again";
    options.ttl = ttl;
    Future<absl::Status> created;
    engine().CreateSession(
        options, [created](const auto& info) { created.Set(info.status()); });
    return created.Get();
  };
  ASSERT_EQ(create(absl::Minutes(1)), absl::OkStatus());
  Logits("again", {1, 2, 3});
  // Its removal waits while it expires, and the clock goes back.
  store_.FailWrites(true);
  harness_->clock().Advance(absl::Minutes(2));
  harness_->clock().SetWall(-absl::Hours(1));
  ASSERT_EQ(create(absl::Hours(24)), absl::OkStatus());
  Logits("again", {4});
  MemoryStore killed;
  store_.CopyTo(killed);
  store_.FailWrites(false);
  EngineHarness next(Logged(), SharedTinyModel(), &killed);
  EXPECT_EQ(next.Position("again"), 1u);
}

TEST_F(EngineLogTest, ARepeatIsAnsweredAfterAKill) {
  ASSERT_TRUE(Create("a").ok());
  StepRequest step = Keyed(StepOf("a", {1, 2, 3}), 0);
  step.outputs.logits = false;
  step.outputs.sampling.emplace();
  const auto first = Step(step);
  ASSERT_TRUE(first.ok());
  Kill();
  const auto again = Step(step);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->sampled_token, first->sampled_token);
  EXPECT_EQ(PositionOf("a"), 3u);
}

TEST_F(EngineLogTest, NothingIsAnsweredBeforeItIsWritten) {
  ASSERT_TRUE(Create("logged").ok());
  ASSERT_TRUE(Create("other", Durability::kNone).ok());
  ThreadHold hold("Journal::WriteLoop");
  const StepRequest step = Keyed(StepOf("logged", {1}), 0);
  const StepFuture first = harness_->StepAsync(step);
  hold.WaitUntilHeld();
  // The session goes on meanwhile, and so do others.
  const StepFuture second = harness_->StepAsync(StepOf("logged", {2}));
  for (int i = 0; i < 20; ++i) Logits("other", {i});
  EXPECT_FALSE(first.IsSet());
  EXPECT_FALSE(second.IsSet());
  // A repeat tells no more than the first.
  const StepFuture again = harness_->StepAsync(step);
  for (int i = 0; i < 20; ++i) Logits("other", {i});
  EXPECT_FALSE(again.IsSet());
  hold.Release();
  EXPECT_TRUE(first.Get().ok());
  EXPECT_TRUE(second.Get().ok());
  EXPECT_EQ(first.Get()->position, 1u);
  EXPECT_EQ(second.Get()->position, 2u);
}

TEST_F(EngineLogTest, AGenerationIsHandedOverAsItIsWritten) {
  ASSERT_TRUE(Create("a").ok());
  EngineHarness alone;
  alone.CreateSession("a");
  GenerateRequest request = GenerateOf("a", MakeTokens(70, 1), uint64_t{30});
  request.ignore_eos = true;
  request.sampling.seed = 5;
  const auto expected = alone.Generate(request);
  ThreadHold hold("MemoryStore::AppendRound");
  const auto recorder = harness_->Generate(request);
  hold.WaitUntilHeld();
  EXPECT_TRUE(recorder->items().empty());
  hold.Release();
  ASSERT_TRUE(recorder->done().Get().ok());
  ASSERT_TRUE(expected->done().Get().ok());
  ASSERT_EQ(recorder->items().size(), 30u);
  for (size_t i = 0; i < 30; ++i) {
    EXPECT_EQ(recorder->items()[i].token, expected->items()[i].token);
    EXPECT_EQ(recorder->items()[i].text_delta, expected->items()[i].text_delta);
  }
  Kill();
  EXPECT_EQ(Logits("a", {1}), alone.Step(StepOf("a", {1}))->logits);
}

TEST_F(EngineLogTest, WhatIsNotWrittenIsNotAcknowledged) {
  ASSERT_TRUE(Create("a").ok());
  ASSERT_TRUE(Create("other", Durability::kShutdown).ok());
  EngineHarness alone;
  alone.CreateSession("a");
  ASSERT_EQ(Logits("a", {1, 2}), alone.Step(StepOf("a", {1, 2}))->logits);
  for (const bool after : {false, true}) {
    const uint64_t position = PositionOf("a");
    after ? store_.FailLogAfterIt(true) : store_.FailLog(true);
    const StepRequest step = Keyed(StepOf("a", {3}), position);
    const auto failed = Step(step);
    EXPECT_EQ(ReasonOf(failed.status()), ErrorReason::kStoreUnavailable);
    EXPECT_TRUE(GetErrorDetails(failed.status())->retry_after.has_value());
    EXPECT_EQ(ReasonOf(Step(step).status()), ErrorReason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(Create("new").status()), ErrorReason::kStoreUnavailable);
    EXPECT_EQ(ReasonOf(engine().GetSession("new").status()),
              ErrorReason::kSessionNotFound);
    Logits("other", {1});
    store_.FailLog(false);
    store_.FailLogAfterIt(false);
    AwaitHealthy(absl::StrCat("probe", after));
    // It had been computed: the repeat is told so, or it was undone.
    const auto again = Step(step);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->position, position + 1);
    ASSERT_TRUE(alone.Step(StepOf("a", {3})).ok());
    Kill();
    EXPECT_EQ(PositionOf("a"), position + 1);
    EXPECT_EQ(Logits("a", {4}), alone.Step(StepOf("a", {4}))->logits);
    ASSERT_TRUE(Create("other", Durability::kShutdown).ok());
  }
  EXPECT_EQ(store_.size(), engine().ListSessions(100, "")->sessions.size() - 1);
}

// Its answer waits for the log that fails, and what it did is in the store.
TEST_F(EngineLogTest, WhatWasForkedMeanwhileIsNotSaidToHaveFailed) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1});
  ThreadHold hold("Journal::WriteLoop");
  const StepFuture step = harness_->StepAsync(Keyed(StepOf("a", {2}), 1));
  hold.WaitUntilHeld();
  ForkOptions fork;
  fork.ids = {"copy"};
  const auto forks = std::make_shared<Forks>();
  const Future<absl::Status> forked =
      harness_->WorkAsync("a", engine().ForkWork(fork, forks));
  while (!engine().GetSession("copy").ok()) std::this_thread::yield();
  store_.FailLog(true);
  hold.Release();
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kStoreUnavailable);
  EXPECT_TRUE(forked.Get().ok()) << forked.Get();
  store_.FailLog(false);
  Kill();
  EXPECT_EQ(PositionOf("copy"), forks->position);
}

// A deletion that comes when it is there, and has not been written.
TEST_F(EngineLogTest, WhatIsDeletedAsItIsImportedStaysDeleted) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1, 2, 3});
  const auto exported = std::make_shared<Engine::Export>();
  WorkRequest exporting = engine().ExportWork(exported);
  exporting.session = "a";
  ASSERT_TRUE(Do(std::move(exporting)).ok());
  SessionOptions options;
  options.id = "b";
  ThreadHold hold("SessionKeeper::Enlist");
  const Future<absl::Status> imported = harness_->WorkAsync(
      "", engine().ImportWork(exported->snapshot, options,
                              std::make_shared<SessionInfo>()));
  hold.WaitUntilHeld();
  Future<absl::Status> removed;
  ASSERT_TRUE(engine()
                  .DeleteSession("b",
                                 [removed](const absl::Status& status) {
                                   removed.Set(status);
                                 })
                  .ok());
  hold.Release();
  // It was there, and it was deleted.
  EXPECT_TRUE(imported.Get().ok() ||
              ReasonOf(imported.Get()) == ErrorReason::kSessionNotFound)
      << imported.Get();
  EXPECT_TRUE(removed.Get().ok());
  Kill();
  EXPECT_EQ(ReasonOf(engine().GetSession("b").status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(PositionOf("a"), 3u);
}

TEST_F(EngineLogTest, AGenerationOfWhichNothingIsWrittenSaysSo) {
  ASSERT_TRUE(Create("a").ok());
  store_.FailLog(true);
  GenerateRequest request = GenerateOf("a", {1, 2}, uint64_t{5});
  request.ignore_eos = true;
  const auto recorder = harness_->Generate(request);
  EXPECT_EQ(ReasonOf(recorder->done().Get().status()),
            ErrorReason::kStoreUnavailable);
  EXPECT_TRUE(recorder->items().empty());
}

TEST_F(EngineLogTest, StepsUnderWayWhileTheLogFailsLeaveNoGap) {
  constexpr size_t kSessions = 8;
  EngineHarness alone;
  CreateIn(alone, kSessions);
  std::mt19937 random(11);
  for (size_t round = 0; round < 40; ++round) {
    store_.FailLog(random() % 3 == 0);
    store_.FailLogAfterIt(random() % 5 == 0);
    std::vector<std::pair<StepRequest, StepFuture>> steps;
    for (size_t i = 0; i < 3 * kSessions; ++i) {
      StepRequest step = StepOf(IdOf(i % kSessions), MakeTokens(2, i + round));
      step.outputs = {};
      // Those that are not the first one expect what that leaves.
      const uint64_t position =
          alone.engine().GetSession(step.session)->position;
      step = Keyed(step, position + 2 * (i / kSessions));
      steps.emplace_back(step, harness_->StepAsync(step));
    }
    for (const auto& [step, answer] : steps) answer.Get();
    store_.FailLog(false);
    store_.FailLogAfterIt(false);
    AwaitHealthy(absl::StrCat("probe", round));
    if (round % 4 == 3) Kill();
    for (const auto& [step, answer] : steps) {
      const auto expected = alone.Step(step);
      ASSERT_TRUE(expected.ok()) << expected.status();
      // What was acknowledged is there; what was not is done now.
      const auto again = Step(step);
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(again->replayed || !answer.Get().ok());
    }
    for (size_t i = 0; i < kSessions; ++i) {
      const StepRequest step = StepOf(IdOf(i), {7});
      ASSERT_EQ(Step(step)->logits, alone.Step(step)->logits) << round;
    }
  }
}

TEST_F(EngineLogTest, ADeletedSessionNeverReturns) {
  ASSERT_TRUE(Create("a").ok());
  ASSERT_TRUE(Create("b").ok());
  Logits("a", {1});
  Logits("b", {1});
  Future<absl::Status> removed;
  ASSERT_TRUE(
      engine()
          .DeleteSession("a", [removed](const auto& s) { removed.Set(s); })
          .ok());
  EXPECT_TRUE(removed.Get().ok());
  Kill();
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(PositionOf("b"), 1u);
  // Nor does the old one come back when the id is used again.
  ASSERT_TRUE(Create("a").ok());
  Kill();
  EXPECT_EQ(PositionOf("a"), 0u);
}

TEST_F(EngineLogTest, ForksAndImportsAreThereBeforeTheyAreAnswered) {
  ASSERT_TRUE(Create("a").ok());
  EngineHarness alone;
  alone.CreateSession("a");
  EXPECT_EQ(Logits("a", {1, 2}), alone.Step(StepOf("a", {1, 2}))->logits);
  ForkOptions fork;
  fork.ids = {"fork"};
  WorkRequest forking = engine().ForkWork(fork, std::make_shared<Forks>());
  forking.session = "a";
  ASSERT_TRUE(Do(std::move(forking)).ok());
  const auto exported = std::make_shared<Engine::Export>();
  WorkRequest exporting = engine().ExportWork(exported);
  exporting.session = "a";
  ASSERT_TRUE(Do(std::move(exporting)).ok());
  SessionOptions imported;
  imported.id = "import";
  ASSERT_TRUE(Do(engine().ImportWork(exported->snapshot, imported,
                                     std::make_shared<SessionInfo>()))
                  .ok());
  Kill();
  const std::vector<float> next = alone.Step(StepOf("a", {3}))->logits;
  for (const char* const session : {"a", "fork", "import"}) {
    EXPECT_EQ(Logits(session, {3}), next) << session;
  }
  // Where they cannot be stored they are not made.
  store_.FailWrites(true);
  fork.ids = {"late"};
  forking = engine().ForkWork(fork, std::make_shared<Forks>());
  forking.session = "a";
  EXPECT_EQ(ReasonOf(Do(std::move(forking))), ErrorReason::kStoreUnavailable);
  imported.id = "late";
  EXPECT_EQ(ReasonOf(Do(engine().ImportWork(exported->snapshot, imported,
                                            std::make_shared<SessionInfo>()))),
            ErrorReason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(engine().GetSession("late").status()),
            ErrorReason::kSessionNotFound);
  store_.FailWrites(false);
  harness_->clock().Advance(absl::Seconds(1));
  Kill();
  EXPECT_EQ(engine().ListSessions(100, "")->sessions.size(), 3u);
}

TEST_F(EngineLogTest, WorkOnASessionThatIsInTheStoreIsDone) {
  ASSERT_TRUE(Create("a").ok());
  ASSERT_TRUE(Create("fresh").ok());
  Logits("a", {1, 2});
  for (const char* const session : {"a", "fresh"}) {
    Kill();
    const auto forks = std::make_shared<Forks>();
    ForkOptions fork;
    fork.ids = {absl::StrCat("of-", session)};
    WorkRequest forking = engine().ForkWork(fork, forks);
    forking.session = session;
    ASSERT_TRUE(Do(std::move(forking)).ok());
    EXPECT_EQ(PositionOf(fork.ids[0]), PositionOf(session));
    Kill();
    const auto exported = std::make_shared<Engine::Export>();
    WorkRequest exporting = engine().ExportWork(exported);
    exporting.session = session;
    ASSERT_TRUE(Do(std::move(exporting)).ok());
    EXPECT_EQ(exported->position, PositionOf(session));
    EXPECT_FALSE(exported->snapshot.empty());
  }
}

// Its name is free again, and what may be in the store does not return.
TEST_F(EngineLogTest, AForkThatMayHaveBeenStoredLeavesNothing) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1});
  ForkOptions fork;
  fork.ids = {"fork"};
  WorkRequest forking = engine().ForkWork(fork, std::make_shared<Forks>());
  forking.session = "a";
  store_.FailWritesAfterThem(true);
  EXPECT_EQ(ReasonOf(Do(std::move(forking))), ErrorReason::kStoreUnavailable);
  store_.FailWritesAfterThem(false);
  EXPECT_FALSE(engine().GetSession("fork").ok());
  ASSERT_TRUE(Create("fork", Durability::kNone).ok());
  EXPECT_EQ(PositionOf("fork"), 0u);
  Logits("fork", {1});
  harness_->clock().Advance(absl::Seconds(2));
  Kill();
  EXPECT_FALSE(engine().GetSession("fork").ok());
}

TEST_F(EngineLogTest, WhatIsDeletedWhileASnapshotIsDueDoesNotReturn) {
  EngineOptions options = Logged();
  options.max_replay = absl::Milliseconds(1);
  Kill(options);
  ASSERT_TRUE(Create("a").ok());
  ThreadHold hold("SessionKeeper::DoJob");
  // The next step waits for its session's snapshot.
  std::vector<StepFuture> steps;
  for (int i = 0; i < 400; ++i) {
    steps.push_back(harness_->StepAsync(StepOf("a", {1})));
    if (harness_->engine().GetSession("a")->active && i % 20 == 19) {
      while (!steps.back().IsSet() && hold.count() == 0) {
        std::this_thread::yield();
      }
    }
    if (hold.count() > 0) break;
  }
  hold.WaitUntilHeld();
  Future<absl::Status> removed;
  ASSERT_TRUE(
      engine()
          .DeleteSession("a", [removed](const auto& s) { removed.Set(s); })
          .ok());
  hold.Release();
  EXPECT_TRUE(removed.Get().ok());
  for (const StepFuture& step : steps) step.Get();
  Kill();
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(EngineLogTest, TheEngineEndsWhileItsLogFailsAndMuchIsToBeRemoved) {
  for (size_t i = 0; i < 600; ++i) ASSERT_TRUE(Create(IdOf(i)).ok());
  store_.FailLog(true);
  (void)Step(StepOf("s0", {1}));
  for (size_t i = 0; i < 600; ++i) {
    ASSERT_TRUE(engine().DeleteSession(IdOf(i)).ok());
  }
  harness_.reset();
  store_.FailLog(false);
  Start();
}

TEST_F(EngineLogTest, WhatIsSyncedOutlivesALossOfPower) {
  ASSERT_TRUE(Create("sync", Durability::kSync).ok());
  EngineHarness alone;
  alone.CreateSession("sync");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(Logits("sync", {i}), alone.Step(StepOf("sync", {i}))->logits);
    store_.LosePower();
    if (i % 3 == 0) Kill();
    ASSERT_EQ(PositionOf("sync"), static_cast<uint64_t>(i) + 1);
  }
}

TEST_F(EngineLogTest, ALossOfPowerTakesTheLastMomentsOfALoggedSession) {
  EngineHarness alone;
  alone.CreateSession("a");
  ASSERT_TRUE(Create("a").ok());
  for (int i = 0; i < 10; ++i) Logits("a", {i});
  // The interval passes: the log is synced.
  harness_->clock().Advance(absl::Seconds(1));
  while (harness_->Metric({"steadystate_log_sync_duration_seconds_count"}) <
         1) {
    std::this_thread::yield();
  }
  ThreadHold hold("Journal::SyncLoop");
  Logits("a", {10});
  store_.LosePower();
  hold.Release();
  Kill();
  EXPECT_EQ(PositionOf("a"), 10u);
  for (int i = 0; i < 10; ++i) alone.Step(StepOf("a", {i})).IgnoreError();
  EXPECT_EQ(Logits("a", {5}), alone.Step(StepOf("a", {5}))->logits);
}

TEST_F(EngineLogTest, AnswersWaitForASyncThatIsLate) {
  ASSERT_TRUE(Create("a").ok());
  ThreadHold hold("MemoryStore::SyncRounds");
  Logits("a", {1});
  harness_->clock().Advance(absl::Seconds(3));
  hold.WaitUntilHeld();
  const StepFuture late = harness_->StepAsync(StepOf("a", {2}));
  while (store_.rounds() < 3) std::this_thread::yield();
  EXPECT_FALSE(late.IsSet());
  hold.Release();
  EXPECT_TRUE(late.Get().ok());
}

TEST_F(EngineLogTest, ASyncThatFailsIsMadeGoodBySnapshots) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1, 2, 3});
  store_.FailLogSyncs(true);
  harness_->clock().Advance(absl::Seconds(1));
  while (harness_->Metric({"steadystate_store_failures_total", "log"}) < 1) {
    std::this_thread::yield();
  }
  store_.FailLogSyncs(false);
  // Nobody has to ask for it.
  while (store_.puts() == 0) std::this_thread::yield();
  AwaitHealthy("probe");
  Logits("a", {4});
  // Whatever the disk has made of what it could not sync.
  store_.LosePower();
  Kill();
  EXPECT_GE(PositionOf("a"), 3u);
}

TEST_F(EngineLogTest, ALongReplayIsCutShortByASnapshot) {
  EngineOptions options = Logged();
  options.max_replay = absl::Milliseconds(1);
  Kill(options);
  EngineHarness alone;
  alone.CreateSession("a");
  ASSERT_TRUE(Create("a").ok());
  const size_t puts = store_.puts();
  // A step counts for 10 us at least, also by a clock that stands still; but
  // snapshots have their pace.
  while (store_.puts() < puts + 3) {
    harness_->clock().Advance(absl::Milliseconds(1));
    ASSERT_EQ(Logits("a", {1}), alone.Step(StepOf("a", {1}))->logits);
  }
  const uint64_t position = PositionOf("a");
  Kill(options);
  EXPECT_EQ(PositionOf("a"), position);
  EXPECT_EQ(Logits("a", {1}), alone.Step(StepOf("a", {1}))->logits);
  EXPECT_LT(harness_->Metric({"steadystate_replayed_tokens_total"}),
            static_cast<double>(position));
}

// How far it can go back is what was told before it was in memory.
TEST_F(EngineLogTest, AWayBackOutlivesAKillAndWhatFollows) {
  constexpr uint64_t kBefore = 20;
  const size_t width = SharedTinyModel()->description().hidden_size;
  StepRequest embeddings = StepOf("", {});
  embeddings.embeddings = std::vector<float>(kBefore * width, 0.5f);
  EngineHarness alone;
  alone.CreateSession("a");
  embeddings.session = "a";
  ASSERT_TRUE(alone.Step(embeddings).ok());
  ASSERT_TRUE(alone.Step(StepOf("a", {0})).ok());
  for (const char* const session : {"a", "b"}) {
    ASSERT_TRUE(Create(session).ok());
    embeddings.session = session;
    ASSERT_TRUE(Step(embeddings).ok());
    const absl::Status hibernated = harness_->Hibernate(session);
    ASSERT_TRUE(hibernated.ok()) << hibernated;
    for (int32_t token = 0; token < 8; ++token) Logits(session, {token});
  }
  Kill();
  for (const char* const session : {"a", "b"}) {
    EXPECT_EQ(engine().GetSession(session)->earliest_position, kBefore);
    // The one is awake before it is taken back.
    if (session[0] == 'b') Logits(session, {9});
    EXPECT_EQ(engine().GetSession(session)->earliest_position, kBefore);
    WorkRequest rewinding = engine().RewindWork(
        {.position = kBefore + 1}, std::make_shared<SessionInfo>());
    rewinding.session = session;
    const absl::Status rewound = Do(std::move(rewinding));
    EXPECT_TRUE(rewound.ok()) << rewound;
  }
  const std::vector<float> next = alone.Step(StepOf("a", {5}))->logits;
  EXPECT_EQ(Logits("a", {5}), next);
  EXPECT_EQ(Logits("b", {5}), next);
}

TEST_F(EngineLogTest, ACleanEndLeavesNothingToBeComputedAgain) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1, 2, 3});
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  Kill();
  Logits("a", {4});
  EXPECT_EQ(harness_->Metric({"steadystate_replayed_tokens_total"}), 0);
}

// Of one that cannot be read the log has when it was used: nobody needs that.
TEST_F(EngineLogTest, WhatIsDamagedKeepsNoRounds) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", {1});
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  Kill();
  store_.Damage(true);
  harness_->clock().Advance(absl::Seconds(10));
  EXPECT_EQ(ReasonOf(Step(StepOf("a", {1})).status()),
            ErrorReason::kSnapshotCorrupt);
  EXPECT_EQ(engine().StoreSessions(absl::Seconds(5)), 0u);
  while (store_.rounds() > 0) std::this_thread::yield();
}

TEST_F(EngineLogTest, OtherNumericsGoOnOnlyIfAllowed) {
  ASSERT_TRUE(Create("a").ok());
  Logits("a", MakeTokens(5, 1));
  EngineOptions other = Logged();
  other.prefill_chunk_rows = 16;
  Kill(other);
  const auto refused = Step(StepOf("a", {1}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kNumericsMismatch);
  EXPECT_EQ(PositionOf("a"), 5u);
  const std::vector<std::string> kRefused = {"steadystate_sessions_unusable",
                                             "numerics_mismatch"};
  EXPECT_EQ(engine().GetSession("a")->unusable, Unusable::kOtherNumerics);
  EXPECT_EQ(harness_->Metric(kRefused), 1);
  other.allow_other_numerics = true;
  Kill(other);
  EXPECT_EQ(engine().GetSession("a")->unusable, Unusable::kNo);
  EXPECT_EQ(harness_->Metric(kRefused), 0);
  Logits("a", {1});
  EXPECT_TRUE(engine().GetSession("a")->other_numerics);
  // From now on it is this one's.
  other.allow_other_numerics = false;
  Kill(other);
  Logits("a", {1});
  EXPECT_EQ(PositionOf("a"), 7u);
}

TEST_F(EngineLogTest, AHoleInTheLogIsNotPassedOver) {
  ASSERT_TRUE(Create("a").ok());
  ASSERT_TRUE(Create("b").ok());
  Logits("a", {1});
  Logits("b", {1});
  store_.LoseRound(3);
  Logits("a", {2});
  Kill();
  EXPECT_EQ(engine().GetSession("a")->unusable, Unusable::kSnapshotCorrupt);
  EXPECT_EQ(engine().GetSession("b")->unusable, Unusable::kNo);
  const auto refused = Step(StepOf("a", {3}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReasonOf(refused.status()), ErrorReason::kSnapshotCorrupt);
  EXPECT_EQ(PositionOf("b"), 1u);
  Logits("b", {2});
  EXPECT_TRUE(engine().DeleteSession("a").ok());
}

TEST_F(EngineLogTest, ARequestThatEndsDuringAReplayLeavesItToTheNext) {
  EngineHarness alone;
  alone.CreateSession("a");
  ASSERT_TRUE(Create("a").ok());
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(Logits("a", {i}), alone.Step(StepOf("a", {i}))->logits);
  }
  Kill();
  // Cancelled wherever it happens to be.
  for (int i = 0; i < 10; ++i) {
    RequestId id = 0;
    const StepFuture step =
        harness_->StepAsync(Keyed(StepOf("a", {7}), 30), &id);
    engine().Cancel(id);
    if (step.Get().ok()) break;
  }
  // It leaves memory with a part absorbed, and comes back.
  harness_->clock().Advance(engine().options().hibernate_after);
  while (engine().GetSession("a")->tier == SessionTier::kMemory) {
    std::this_thread::yield();
  }
  const auto last = Step(Keyed(StepOf("a", {7}), 30));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->logits, alone.Step(StepOf("a", {7}))->logits);
  EXPECT_EQ(PositionOf("a"), 31u);
}

TEST_F(EngineLogTest, ManyWritersUnderPressureAndKills) {
  constexpr size_t kSessions = 12;
  EngineOptions options = Logged();
  options.state_memory_bytes =
      4 * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
  Kill(options);
  EngineHarness alone;
  CreateIn(alone, kSessions);
  for (size_t round = 0; round < 15; ++round) {
    std::vector<StepFuture> answers;
    for (size_t i = 0; i < kSessions; ++i) {
      answers.push_back(
          harness_->StepAsync(StepOf(IdOf(i), MakeTokens(3, i + round))));
    }
    for (size_t i = 0; i < kSessions; ++i) {
      ASSERT_TRUE(answers[i].Get().ok()) << answers[i].Get().status();
      ASSERT_EQ(answers[i].Get()->logits,
                alone.Step(StepOf(IdOf(i), MakeTokens(3, i + round)))->logits);
    }
    if (round % 3 == 2) Kill(options);
  }
}

TEST_F(EngineLogTest, ADurabilityNeedsAStore) {
  EngineHarness without;
  SessionOptions options;
  options.durability = Durability::kLog;
  EXPECT_EQ(ReasonOf(without.engine().CreateSession(options).status()),
            ErrorReason::kNoStore);
  options.durability = Durability::kNone;
  EXPECT_TRUE(without.engine().CreateSession(options).ok());
}

}  // namespace
}  // namespace steadystate::engine_log_test
