// Goal: with a store, any number of sessions take turns in the memory of a few,
// each to the byte what it would be alone, and all are there when the engine
// ends in order and another begins; what fails there is told to whom it
// concerns, and to nobody else. Method: a store in memory that fails when it is
// told to; engines that follow each other; the keeper's thread held while it
// moves a state.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_store_test {
namespace {

constexpr size_t kInMemory = 3;

// The memory of so many sessions.
EngineOptions OptionsFor(size_t sessions) {
  EngineOptions options;
  options.state_memory_bytes =
      sessions * SessionLayoutOf(*SharedTinyModel(), options).charge_bytes();
  return options;
}

std::string IdOf(size_t i) { return absl::StrCat("s", i); }

class EngineStoreTest : public testing::Test {
 protected:
  EngineStoreTest() { Start(); }

  void Start(const EngineOptions& options = OptionsFor(kInMemory)) {
    harness_.emplace(options, SharedTinyModel(), &store_);
  }
  // Ends the engine in order, and starts another on the same store.
  void Restart() {
    EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
    harness_.reset();
    Start();
  }

  Engine& engine() { return harness_->engine(); }

  std::vector<float> Logits(const std::string& session,
                            std::vector<int32_t> tokens) {
    const auto result = harness_->Step(StepOf(session, std::move(tokens)));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->logits : std::vector<float>();
  }

  SessionInfo Get(const std::string& session) {
    const auto info = engine().GetSession(session);
    EXPECT_TRUE(info.ok()) << info.status();
    return info.ok() ? *info : SessionInfo();
  }

  void AwaitTier(const std::string& session, SessionTier tier) {
    while (Get(session).tier != tier) std::this_thread::yield();
  }

  // By requests that have no session, so that these cannot leave memory, and
  // that wait for their clients.
  std::vector<RequestId> HoldAllSlots() { return HoldSlots(kInMemory); }
  std::vector<RequestId> HoldSlots(size_t slots) {
    std::vector<RequestId> ids(slots);
    for (RequestId& id : ids) {
      const auto paused =
          harness_->Score(ScoreOf("", MakeTokens(1'000'000, 1)), &id);
      paused->set_limit(1);
      paused->AwaitItems(1);
    }
    return ids;
  }

  // Gauges are set when the keeper's thread looks at what is next.
  void AwaitMetric(const std::vector<std::string>& parts, double value) {
    while (harness_->Metric(parts) != value) std::this_thread::yield();
  }

  // As long as the keeper's thread does what is due by the clock.
  void AwaitHibernated(const std::string& session) {
    AwaitTier(session, SessionTier::kStored);
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
};

TEST_F(EngineStoreTest, ManySessionsTakeTurnsInLittleMemory) {
  constexpr size_t kSessions = 20;
  EngineHarness alone;
  for (size_t i = 0; i < kSessions; ++i) {
    harness_->CreateSession(IdOf(i));
    alone.CreateSession(IdOf(i));
  }
  std::mt19937 random(1);
  for (uint64_t step = 0; step < 400; ++step) {
    const std::string session = IdOf(random() % kSessions);
    const std::vector<int32_t> tokens = MakeTokens(1 + random() % 7, step);
    ASSERT_EQ(Logits(session, tokens),
              alone.Step(StepOf(session, tokens))->logits)
        << step;
  }
  EXPECT_GT(harness_->Metric({"steadystate_hibernations_total"}), 100);
  EXPECT_GT(harness_->Metric({"steadystate_wake_duration_seconds_count"}), 100);
  AwaitMetric({"steadystate_sessions{"}, kSessions);
}

TEST_F(EngineStoreTest, AllAtOnceInLittleMemory) {
  constexpr size_t kSessions = 40;
  EngineHarness alone;
  std::vector<StepFuture> answers;
  for (size_t i = 0; i < kSessions; ++i) {
    harness_->CreateSession(IdOf(i));
    alone.CreateSession(IdOf(i));
  }
  for (size_t round = 0; round < 5; ++round) {
    answers.clear();
    for (size_t i = 0; i < kSessions; ++i) {
      answers.push_back(
          harness_->StepAsync(StepOf(IdOf(i), MakeTokens(3, i + round))));
    }
    for (size_t i = 0; i < kSessions; ++i) {
      ASSERT_TRUE(answers[i].Get().ok()) << answers[i].Get().status();
      EXPECT_EQ(answers[i].Get()->logits,
                alone.Step(StepOf(IdOf(i), MakeTokens(3, i + round)))->logits);
    }
  }
}

TEST_F(EngineStoreTest, WhoIsIdleForLongLeavesMemory) {
  harness_->CreateSession("a");
  harness_->CreateSession("twin");
  Logits("a", {1, 2, 3});
  Logits("twin", {1, 2, 3});
  EXPECT_EQ(Get("a").tier, SessionTier::kMemory);
  harness_->clock().Advance(engine().options().hibernate_after);
  AwaitHibernated("a");
  AwaitHibernated("twin");
  EXPECT_EQ(Get("a").position, 3u);
  AwaitMetric({"steadystate_sessions{", "hibernated"}, 2);
  AwaitMetric({"steadystate_state_bytes{"}, 0);
  EXPECT_EQ(Logits("a", {4}), Logits("twin", {4}));
  EXPECT_EQ(Get("a").tier, SessionTier::kMemory);
  AwaitMetric({"steadystate_sessions{", "hibernated"}, 0);
  // What has not changed is not written again.
  const size_t puts = store_.puts();
  EXPECT_EQ(puts, 2u);
}

TEST_F(EngineStoreTest, AllSessionsOutliveTheEngine) {
  EngineHarness alone;
  SessionOptions options;
  options.id = "labelled";
  options.labels = {{"user", "ada"}};
  options.ttl = absl::Minutes(7);
  ASSERT_TRUE(engine().CreateSession(options).ok());
  for (size_t i = 0; i < 8; ++i) {
    harness_->CreateSession(IdOf(i));
    alone.CreateSession(IdOf(i));
    // The last one has absorbed nothing.
    if (i == 7) continue;
    Logits(IdOf(i), MakeTokens(5, i));
    ASSERT_TRUE(alone.Step(StepOf(IdOf(i), MakeTokens(5, i))).ok());
  }
  const SessionInfo before = Get("s1");
  Restart();
  EXPECT_EQ(engine().ListSessions(100, "")->sessions.size(), 9u);
  EXPECT_EQ(Get("labelled").labels.at("user"), "ada");
  EXPECT_EQ(Get("labelled").ttl, absl::Minutes(7));
  EXPECT_EQ(Get("s1").uid, before.uid);
  EXPECT_EQ(Get("s1").position, 5u);
  EXPECT_EQ(Get("s1").create_time, before.create_time);
  EXPECT_EQ(Get("s1").tier, SessionTier::kStored);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(Logits(IdOf(i), {9, 8}),
              alone.Step(StepOf(IdOf(i), {9, 8}))->logits);
  }
  Restart();
  EXPECT_EQ(Get("s1").position, 7u);
}

TEST_F(EngineStoreTest, RepeatsAreKnownAfterwards) {
  harness_->CreateSession("a");
  StepRequest step = StepOf("a", {1, 2, 3});
  step.outputs = {};
  step.request_id = "once";
  step.expected_position = 0;
  ASSERT_TRUE(harness_->Step(step).ok());
  Restart();
  const auto again = harness_->Step(step);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(Get("a").position, 3u);
}

TEST_F(EngineStoreTest, TimeWithoutAnEngineCountsOnce) {
  SessionOptions options;
  options.ttl = absl::Minutes(10);
  options.id = "short";
  ASSERT_TRUE(engine().CreateSession(options).ok());
  options.ttl = absl::Hours(10);
  options.id = "long";
  ASSERT_TRUE(engine().CreateSession(options).ok());
  harness_->clock().Advance(absl::Minutes(4));
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  // The next engine's clock begins where this one's began: four minutes before
  // it was stored, as if somebody had set the time of day back meanwhile.
  harness_.reset();
  Start();
  EXPECT_EQ(Get("short").position, 0u);
  harness_->clock().Advance(absl::Minutes(9));
  EXPECT_EQ(Get("short").position, 0u);
  harness_->clock().Advance(absl::Minutes(1));
  EXPECT_EQ(ReasonOf(engine().GetSession("short").status()),
            ErrorReason::kSessionExpired);
  EXPECT_EQ(Get("long").position, 0u);
  // It does not come back.
  while (store_.size() > 1) std::this_thread::yield();
}

TEST_F(EngineStoreTest, WhenASessionWasUsedIsStoredThoughItsStateIsAlready) {
  harness_->CreateSession("rewound");
  harness_->CreateSession("refused");
  Logits("rewound", {1, 2, 3});
  Logits("refused", {1});
  harness_->clock().Advance(engine().options().hibernate_after);
  AwaitHibernated("rewound");
  AwaitHibernated("refused");
  // The one has something to absorb again, and the other did not wake.
  WorkRequest work =
      engine().RewindWork({.position = 2}, std::make_shared<SessionInfo>());
  work.session = "rewound";
  Future<absl::Status> done;
  SubmitThen(engine(), std::move(work),
             [done](const auto& end) { done.Set(end.status()); });
  ASSERT_TRUE(done.Get().ok()) << done.Get();
  store_.FailReads(true);
  EXPECT_FALSE(harness_->Step(StepOf("refused", {2})).ok());
  store_.FailReads(false);
  const absl::Time rewound = Get("rewound").last_step_time;
  const absl::Time refused = Get("refused").last_step_time;
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  Metrics metrics("tiny");
  ManualClock later;
  later.Advance(absl::Minutes(10));
  const auto next = Engine::Create(OptionsFor(kInMemory), SharedTinyModel(),
                                   later, metrics, &store_);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->GetSession("rewound")->last_step_time, rewound);
  EXPECT_EQ((*next)->GetSession("rewound")->position, 2u);
  EXPECT_EQ((*next)->GetSession("refused")->last_step_time, refused);
}

TEST_F(EngineStoreTest, WhatHasExpiredMeanwhileIsKnownAsThat) {
  harness_->CreateSession("a");
  Logits("a", {1});
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  EngineOptions options = OptionsFor(kInMemory);
  Metrics metrics("tiny");
  ManualClock later;
  later.Advance(absl::Hours(2));
  const auto next =
      Engine::Create(options, SharedTinyModel(), later, metrics, &store_);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(ReasonOf((*next)->GetSession("a").status()),
            ErrorReason::kSessionExpired);
}

TEST_F(EngineStoreTest, WhatHasExpiredIsKnownAsThatByTheNextEngine) {
  const auto reason_of = [this](const char* id) {
    return ReasonOf(engine().GetSession(id).status());
  };
  SessionOptions lost;
  lost.durability = Durability::kNone;
  lost.id = "lost";
  ASSERT_TRUE(engine().CreateSession(lost).ok());
  for (const char* const id : {"gone", "again", "deleted"}) {
    harness_->CreateSession(id);
    Logits(id, {1});
  }
  store_.FailWrites(true);
  harness_->clock().Advance(engine().options().session_ttl);
  while (engine().GetSession("gone").ok()) std::this_thread::yield();
  // What was not told of a store that failed is told when it works.
  store_.FailWrites(false);
  while (store_.expired() < 3) {
    harness_->clock().Advance(absl::Seconds(1));
    std::this_thread::yield();
  }
  harness_->CreateSession("again");
  harness_->CreateSession("deleted");
  ASSERT_TRUE(engine().DeleteSession("deleted").ok());
  while (store_.expired() > 1) std::this_thread::yield();
  // As if it were killed.
  MemoryStore left;
  store_.CopyTo(left);
  harness_.emplace(OptionsFor(kInMemory), SharedTinyModel(), &left);
  EXPECT_EQ(reason_of("gone"), ErrorReason::kSessionExpired);
  EXPECT_EQ(reason_of("deleted"), ErrorReason::kSessionNotFound);
  EXPECT_EQ(reason_of("lost"), ErrorReason::kSessionNotFound);
  harness_.reset();
}

TEST_F(EngineStoreTest, WhatCannotBeStoredAtTheEndIsTriedAgain) {
  harness_->CreateSession("a");
  harness_->CreateSession("b");
  const std::vector<float> expected = Logits("a", {1});
  Logits("b", {1});
  for (const bool works_again : {false, true}) {
    store_.FailWrites(true);
    const absl::Duration budget =
        works_again ? absl::Minutes(30) : absl::Seconds(5);
    const double before =
        harness_->Metric({"steadystate_store_failures_total", "write"});
    const Future<std::optional<size_t>> left;
    std::thread ending([&] { left.Set(engine().StoreSessions(budget)); });
    while (harness_->Metric({"steadystate_store_failures_total", "write"}) <
           before + 1) {
      std::this_thread::yield();
    }
    EXPECT_FALSE(left.IsSet());
    if (works_again) store_.FailWrites(false);
    while (!left.WaitFor(std::chrono::milliseconds(20))) {
      harness_->clock().Advance(absl::Milliseconds(200));
    }
    ending.join();
    EXPECT_EQ(left.Get(), works_again ? size_t{0} : size_t{2});
  }
  harness_.reset();
  Start();
  EXPECT_EQ(Get("a").position, 1u);
  EXPECT_EQ(Get("b").position, 1u);
}

TEST_F(EngineStoreTest, ADeletedSessionNeverReturns) {
  harness_->CreateSession("kept");
  harness_->CreateSession("in-memory");
  harness_->CreateSession("stored");
  Logits("in-memory", {1});
  Logits("stored", {1});
  harness_->clock().Advance(engine().options().hibernate_after);
  AwaitHibernated("stored");
  AwaitHibernated("in-memory");
  Logits("in-memory", {2});
  for (const char* const id : {"in-memory", "stored"}) {
    Future<absl::Status> removed;
    ASSERT_TRUE(engine()
                    .DeleteSession(id,
                                   [removed](const absl::Status& status) {
                                     removed.Set(status);
                                   })
                    .ok());
    EXPECT_TRUE(removed.Get().ok()) << removed.Get();
  }
  EXPECT_EQ(store_.size(), 0u);
  Restart();
  EXPECT_EQ(engine().ListSessions(100, "")->sessions.size(), 1u);
}

TEST_F(EngineStoreTest, ADeletionThatTheStoreFailsIsToldAndTriedAgain) {
  harness_->CreateSession("a");
  Logits("a", {1});
  harness_->clock().Advance(engine().options().hibernate_after);
  AwaitHibernated("a");
  store_.FailWrites(true);
  Future<absl::Status> removed;
  ASSERT_TRUE(engine()
                  .DeleteSession("a",
                                 [removed](const absl::Status& status) {
                                   removed.Set(status);
                                 })
                  .ok());
  EXPECT_EQ(ReasonOf(removed.Get()), ErrorReason::kStoreUnavailable);
  EXPECT_EQ(store_.size(), 1u);
  store_.FailWrites(false);
  harness_->clock().Advance(absl::Seconds(2));
  while (store_.size() > 0) std::this_thread::yield();
}

TEST_F(EngineStoreTest, AStoreThatFailsHurtsOnlyThoseWhoNeedIt) {
  for (size_t i = 0; i < kInMemory; ++i) {
    harness_->CreateSession(IdOf(i));
    Logits(IdOf(i), {1});
  }
  harness_->CreateSession("one-more");
  store_.FailWrites(true);
  EXPECT_EQ(ReasonOf(harness_->Step(StepOf("one-more", {1})).status()),
            ErrorReason::kStoreUnavailable);
  EXPECT_GT(harness_->Metric({"steadystate_store_failures_total", "write"}), 0);
  // While it is left alone, too, it is the store that has no room to give.
  EXPECT_EQ(ReasonOf(harness_->Work(
                IdOf(0), engine().ForkWork({}, std::make_shared<Forks>()))),
            ErrorReason::kStoreUnavailable);
  for (size_t i = 0; i < kInMemory; ++i) Logits(IdOf(i), {2});
  store_.FailWrites(false);
  harness_->clock().Advance(absl::Seconds(2));
  Logits("one-more", {1});
  EXPECT_EQ(Get("one-more").position, 1u);
  for (size_t i = 0; i < kInMemory; ++i) {
    Logits(IdOf(i), {3});
    EXPECT_EQ(Get(IdOf(i)).position, 3u);
  }
}

TEST_F(EngineStoreTest, AStepWaitsForASlotUpToItsDeadline) {
  const std::vector<RequestId> ids = HoldAllSlots();
  harness_->CreateSession("late");
  harness_->CreateSession("later");
  StepRequest late = StepOf("late", {1});
  late.deadline = harness_->clock().Now() + absl::Seconds(10);
  const StepFuture timed = harness_->StepAsync(late);
  RequestId cancelled_id = 0;
  const StepFuture cancelled =
      harness_->StepAsync(StepOf("later", {1}), &cancelled_id);
  harness_->CreateSession("third");
  const StepFuture waits = harness_->StepAsync(StepOf("third", {1}));
  engine().Cancel(cancelled_id);
  EXPECT_EQ(ReasonOf(cancelled.Get().status()), ErrorReason::kCancelled);
  harness_->clock().Advance(absl::Seconds(11));
  EXPECT_EQ(ReasonOf(timed.Get().status()), ErrorReason::kDeadlineExceeded);
  EXPECT_FALSE(waits.IsSet());
  engine().Cancel(ids[0]);
  EXPECT_TRUE(waits.Get().ok()) << waits.Get().status();
  EXPECT_EQ(Get("late").position, 0u);
}

TEST_F(EngineStoreTest, TheEngineEndsWhileStepsWaitForASlot) {
  HoldAllSlots();
  harness_->CreateSession("late");
  const StepFuture waits = harness_->StepAsync(StepOf("late", {1}));
  harness_->DestroyEngine();
  EXPECT_EQ(ReasonOf(waits.Get().status()), ErrorReason::kDraining);
}

TEST_F(EngineStoreTest, WhoComesWhileItsStateIsWrittenDownStays) {
  EngineHarness alone;
  alone.CreateSession("a");
  harness_->CreateSession("a");
  Logits("a", {1, 2});
  ASSERT_TRUE(alone.Step(StepOf("a", {1, 2})).ok());
  ThreadHold hold("MemoryStore::Put");
  harness_->clock().Advance(engine().options().hibernate_after);
  hold.WaitUntilHeld();
  const StepFuture step = harness_->StepAsync(StepOf("a", {3}));
  hold.Release();
  ASSERT_TRUE(step.Get().ok()) << step.Get().status();
  EXPECT_EQ(step.Get()->logits, alone.Step(StepOf("a", {3}))->logits);
  EXPECT_EQ(Get("a").tier, SessionTier::kMemory);
}

TEST_F(EngineStoreTest, WhoIsDeletedWhileItsStateIsWrittenDownIsGone) {
  harness_->CreateSession("a");
  Logits("a", {1, 2});
  ThreadHold hold("MemoryStore::Put");
  harness_->clock().Advance(engine().options().hibernate_after);
  hold.WaitUntilHeld();
  Future<absl::Status> removed;
  ASSERT_TRUE(engine()
                  .DeleteSession("a",
                                 [removed](const absl::Status& status) {
                                   removed.Set(status);
                                 })
                  .ok());
  EXPECT_FALSE(removed.IsSet());
  hold.Release();
  EXPECT_TRUE(removed.Get().ok());
  EXPECT_EQ(store_.size(), 0u);
  AwaitMetric({"steadystate_sessions{"}, 0);
}

TEST_F(EngineStoreTest, WhoIsDeletedWhileItWakesIsNotFound) {
  harness_->CreateSession("a");
  Logits("a", {1, 2});
  harness_->clock().Advance(engine().options().hibernate_after);
  AwaitHibernated("a");
  ThreadHold hold("MemoryStore::Read");
  const StepFuture step = harness_->StepAsync(StepOf("a", {3}));
  hold.WaitUntilHeld();
  Future<absl::Status> removed;
  ASSERT_TRUE(engine()
                  .DeleteSession("a",
                                 [removed](const absl::Status& status) {
                                   removed.Set(status);
                                 })
                  .ok());
  hold.Release();
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_TRUE(removed.Get().ok());
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(EngineStoreTest, WhoHasFailedToBeStoredDoesNotReturn) {
  harness_->CreateSession("a");
  Logits("a", {1, 2});
  store_.FailWritesAfterThem(true);
  harness_->clock().Advance(engine().options().hibernate_after);
  while (harness_->Metric({"steadystate_store_failures_total"}) == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(store_.size(), 1u);
  store_.FailWritesAfterThem(false);
  Future<absl::Status> removed;
  harness_->clock().Advance(absl::Seconds(2));
  ASSERT_TRUE(engine()
                  .DeleteSession("a",
                                 [removed](const absl::Status& status) {
                                   removed.Set(status);
                                 })
                  .ok());
  EXPECT_TRUE(removed.Get().ok());
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(EngineStoreTest, MoreThanTheBudgetAreTakenUpAndNoneAreMade) {
  for (size_t i = 0; i < 20; ++i) harness_->CreateSession(IdOf(i));
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  harness_.reset();
  EngineOptions options = OptionsFor(kInMemory);
  options.store_budget_bytes = size_t{1} << 18;
  Start(options);
  EXPECT_EQ(engine().ListSessions(100, "")->sessions.size(), 20u);
  EXPECT_EQ(ReasonOf(engine().CreateSession({}).status()),
            ErrorReason::kStateBudgetExhausted);
  Logits("s7", {1});
}

// They may be many, and the end stores all of them in one sweep.
TEST_F(EngineStoreTest, AShutdownDoesNotWaitForWhatIsToHibernate) {
  for (const char* id : {"a", "b", "c"}) {
    harness_->CreateSession(id);
    EXPECT_TRUE(harness_->Step(StepOf(id, {1})).ok());
  }
  const auto hibernate = [this](const std::string& id) {
    Future<absl::Status> hibernated;
    const absl::Status asked = engine().HibernateSession(
        id,
        [hibernated](const absl::Status& status) { hibernated.Set(status); });
    if (!asked.ok()) hibernated.Set(asked);
    return hibernated;
  };
  ThreadHold hold("SessionKeeper::MoveOut");
  const auto first = hibernate("a");
  hold.WaitUntilHeld();
  const auto second = hibernate("b");
  engine().BeginDrain();
  EXPECT_EQ(ReasonOf(second.Get()), ErrorReason::kDraining);
  EXPECT_EQ(ReasonOf(hibernate("c").Get()), ErrorReason::kDraining);
  EXPECT_FALSE(first.IsSet());
  hold.Release();
  EXPECT_TRUE(first.Get().ok());
  EXPECT_EQ(engine().StoreSessions(absl::Minutes(1)), 0u);
  EXPECT_EQ(store_.size(), 3u);
}

TEST_F(EngineStoreTest, WhoIsAskedToLeavesMemoryAtOnce) {
  const auto hibernate = [this](const std::string& id) {
    Future<absl::Status> hibernated;
    const absl::Status asked = engine().HibernateSession(
        id,
        [hibernated](const absl::Status& status) { hibernated.Set(status); });
    return asked.ok() ? hibernated.Get() : asked;
  };
  EngineHarness alone;
  alone.CreateSession("a");
  harness_->CreateSession("a");
  Logits("a", {1, 2});
  ASSERT_TRUE(alone.Step(StepOf("a", {1, 2})).ok());
  EXPECT_TRUE(hibernate("a").ok());
  EXPECT_EQ(Get("a").tier, SessionTier::kStored);
  EXPECT_TRUE(hibernate("a").ok());
  EXPECT_EQ(store_.puts(), 1u);
  EXPECT_EQ(Logits("a", {3}), alone.Step(StepOf("a", {3}))->logits);
  GenerateRequest endless = GenerateOf("a", {1}, 1'000'000);
  endless.ignore_eos = true;
  RequestId id = 0;
  const auto paused = harness_->Generate(endless, &id);
  paused->set_limit(2);
  paused->AwaitItems(2);
  EXPECT_EQ(ReasonOf(hibernate("a")), ErrorReason::kSessionBusy);
  engine().Cancel(id);
  EXPECT_FALSE(paused->done().Get().ok());
  store_.FailWrites(true);
  EXPECT_EQ(ReasonOf(hibernate("a")), ErrorReason::kStoreUnavailable);
  EXPECT_EQ(Get("a").tier, SessionTier::kMemory);
  EXPECT_EQ(ReasonOf(hibernate("nobody")), ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(alone.engine().HibernateSession("a", nullptr)),
            ErrorReason::kNoStore);
}

TEST_F(EngineStoreTest, ForksLeaveMemoryAndComeBack) {
  EngineHarness alone;
  alone.CreateSession("parent");
  harness_->CreateSession("parent");
  Logits("parent", {1, 2, 3});
  ASSERT_TRUE(alone.Step(StepOf("parent", {1, 2, 3})).ok());
  ForkOptions options;
  options.count = 10;
  auto forks = std::make_shared<Forks>();
  WorkRequest work = engine().ForkWork(options, forks);
  const Future<absl::Status> done =
      harness_->WorkAsync("parent", std::move(work));
  ASSERT_TRUE(done.Get().ok()) << done.Get();
  const std::vector<float> expected =
      alone.Step(StepOf("parent", {4, 5}))->logits;
  for (const std::string& fork : forks->ids) {
    EXPECT_EQ(Logits(fork, {4, 5}), expected);
  }
  Restart();
  for (const std::string& fork : forks->ids) {
    EXPECT_EQ(Get(fork).position, 5u);
  }
  EXPECT_EQ(Logits("parent", {4, 5}), expected);
}

// The parent has the last slot, and nobody else can leave memory.
TEST_F(EngineStoreTest, AForkNeedsNoSlotBesideItsParents) {
  EngineHarness alone;
  for (const char* const id : {"now", "before"}) alone.CreateSession(id);
  harness_->CreateSession("parent");
  for (const auto& tokens : {MakeTokens(5, 1), MakeTokens(4, 2)}) {
    EXPECT_EQ(Logits("parent", tokens),
              alone.Step(StepOf("now", tokens))->logits);
  }
  ASSERT_TRUE(alone.Step(StepOf("before", MakeTokens(5, 1))).ok());
  ASSERT_TRUE(alone.Step(StepOf("before", {MakeTokens(4, 2)[0]})).ok());
  std::vector<RequestId> held = HoldSlots(kInMemory - 1);
  ForkOptions now;
  now.ids = {"now", "again"};
  now.count = 2;
  ForkOptions before;
  before.ids = {"before"};
  before.at.position = 6;
  ForkOptions checkpoint;
  checkpoint.ids = {CheckpointId("checkpoint")};
  checkpoint.checkpoints = true;
  for (const ForkOptions& fork : {now, before, checkpoint}) {
    const absl::Status forked = harness_->Work(
        "parent", engine().ForkWork(fork, std::make_shared<Forks>()));
    ASSERT_TRUE(forked.ok()) << forked;
  }
  for (const char* const id : {"now", "again", "before"}) {
    EXPECT_EQ(Get(id).tier, SessionTier::kStored);
  }
  EXPECT_EQ(Get("now").position, 9u);
  EXPECT_EQ(Get("before").position, 6u);
  for (const RequestId id : held) engine().Cancel(id);
  const std::vector<float> next = alone.Step(StepOf("now", {7}))->logits;
  EXPECT_EQ(Logits("now", {7}), next);
  EXPECT_EQ(Logits("again", {7}), next);
  EXPECT_EQ(Logits("parent", {7}), next);
  EXPECT_EQ(Logits("before", {7}), alone.Step(StepOf("before", {7}))->logits);
  ForkOptions made;
  made.ids = {"made"};
  ASSERT_TRUE(harness_
                  ->Work(CheckpointId("checkpoint"),
                         engine().ForkWork(made, std::make_shared<Forks>()))
                  .ok());
  EXPECT_EQ(Logits("made", {7}), next);
  Restart();
  EXPECT_EQ(Get("again").position, 10u);
}

TEST_F(EngineStoreTest, TheStoreHasABudget) {
  harness_.reset();
  EngineOptions options = OptionsFor(kInMemory);
  options.store_budget_bytes = size_t{1} << 20;
  Start(options);
  size_t made = 0;
  absl::Status status;
  while (status.ok()) {
    status = engine().CreateSession({}).status();
    if (status.ok()) ++made;
  }
  EXPECT_EQ(ReasonOf(status), ErrorReason::kStateBudgetExhausted);
  EXPECT_GT(made, kInMemory);
  EXPECT_LT(made, 1000u);
}

TEST_F(EngineStoreTest, ScoresAndEmbedsNeedMemoryToo) {
  for (size_t i = 0; i < 2 * kInMemory; ++i) {
    harness_->CreateSession(IdOf(i));
    Logits(IdOf(i), {1});
  }
  EngineHarness alone;
  const auto expected = alone.Score(ScoreOf("", {1, 2, 3}));
  const auto scored = harness_->Score(ScoreOf("", {1, 2, 3}));
  ASSERT_TRUE(scored->done().Get().ok()) << scored->done().Get().status();
  EXPECT_EQ(scored->done().Get()->total_logprob,
            expected->done().Get()->total_logprob);
}

// A store that is put right by being tried again.
class OnceUnreadableStore final : public MemoryStore {
 public:
  absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) override {
    if (++tries == 1) {
      return MakeError(ErrorReason::kStoreUnavailable, "not yet", {},
                       absl::Milliseconds(1));
    }
    return MemoryStore::ForEach(each);
  }

  int tries = 0;
};

TEST(EngineStartTest, WhatPassesByItselfStopsNoStart) {
  OnceUnreadableStore store;
  Metrics metrics("tiny");
  const auto engine = Engine::Create(OptionsFor(kInMemory), SharedTinyModel(),
                                     Clock::Real(), metrics, &store);
  EXPECT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(store.tries, 2);
}

}  // namespace
}  // namespace steadystate::engine_store_test
