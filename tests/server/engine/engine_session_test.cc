// Goal: sessions through the engine: admission, expiry, order and bounds of
// their requests, refusals, drain and shutdown.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/session/session.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/end_receiver.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_session_test {
namespace {

uint64_t SessionBytes() {
  EngineHarness harness;
  return harness.engine().GetSession(harness.CreateSession())->state_bytes;
}

// Looks until `condition` holds; false after a minute.
template <typename Condition>
bool Eventually(const Condition& condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(EngineSessionTest, RefusesABudgetBelowOneSession) {
  ManualClock clock;
  Metrics metrics("tiny");
  EngineOptions options;
  options.state_memory_bytes = SessionBytes() - 1;
  const auto engine =
      Engine::Create(options, SharedTinyModel(), clock, metrics);
  EXPECT_EQ(ReasonOf(engine.status()), ErrorReason::kInvalidArgument);
  EXPECT_EQ(MetadataOf(engine.status(), "bounds"),
            absl::StrCat(SessionBytes()));
}

TEST(EngineSessionTest, AdmissionIsExactAndMemoryComesBack) {
  constexpr uint64_t kSessions = 5;
  EngineOptions options;
  options.state_memory_bytes = (kSessions + 1) * SessionBytes() - 1;
  EngineHarness harness(options);
  Engine& engine = harness.engine();
  for (uint64_t i = 0; i < kSessions; ++i) {
    harness.CreateSession(absl::StrCat("s", i));
  }
  const absl::Status refused = engine.CreateSession({}).status();
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kStateBudgetExhausted);
  EXPECT_EQ(GetErrorDetails(refused)->retry_after, absl::Minutes(1));
  EXPECT_EQ(harness.Metric({"steadystate_state_bytes{"}),
            static_cast<double>(kSessions * SessionBytes()));
  EXPECT_EQ(harness.Metric({"admission_rejections_total", "state_budget"}), 1);
  EXPECT_TRUE(engine.DeleteSession("s3").ok());
  harness.CreateSession("again");
  EXPECT_FALSE(engine.CreateSession({}).ok());

  // The hint is when the next session expires.
  harness.clock().Advance(engine.options().session_ttl - absl::Seconds(5));
  EXPECT_EQ(GetErrorDetails(engine.CreateSession({}).status())->retry_after,
            absl::Seconds(5));
}

TEST(EngineSessionTest, ADeletedSessionLeavesNothingToTheNext) {
  EngineOptions options;
  options.state_memory_bytes = SessionBytes();
  EngineHarness harness(options);
  harness.CreateSession("a");
  const auto first = harness.Step(StepOf("a", {1, 2}));
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(harness.engine().DeleteSession("a").ok());
  harness.CreateSession("a");
  const auto sink = harness.Generate(GenerateOf("a", {}, 1));
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kNoPendingLogits);
  EXPECT_EQ(harness.Step(StepOf("a", {1, 2}))->logits, first->logits);
}

TEST(EngineSessionTest, ASessionExpiresItsTtlAfterItsLastStep) {
  EngineHarness harness;
  Engine& engine = harness.engine();
  const absl::Duration ttl = engine.options().session_ttl;
  harness.CreateSession("s");
  harness.clock().Advance(ttl - absl::Seconds(1));
  ASSERT_TRUE(harness.Step(StepOf("s", {1})).ok());
  const auto info = engine.GetSession("s");
  EXPECT_EQ(info->last_step_time, harness.clock().WallNow());
  EXPECT_EQ(info->expire_time, harness.clock().WallNow() + ttl);
  harness.clock().Advance(ttl - absl::Seconds(1));
  EXPECT_TRUE(engine.GetSession("s").ok());
  harness.clock().Advance(absl::Seconds(1));
  for (const absl::Status& status :
       {engine.GetSession("s").status(), engine.DeleteSession("s"),
        harness.Step(StepOf("s", {1})).status()}) {
    EXPECT_EQ(ReasonOf(status), ErrorReason::kSessionExpired);
    EXPECT_NE(MetadataOf(status, "expire_time"), "");
  }
  EXPECT_EQ(ReasonOf(engine.GetSession("t").status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(harness.Metric({"sessions_ended_total", "expired"}), 1);
}

TEST(EngineSessionTest, SettingTheTimeOfDayExpiresNothing) {
  EngineHarness harness;
  Engine& engine = harness.engine();
  harness.CreateSession("s");
  for (const absl::Duration by : {absl::Hours(48), -absl::Hours(96)}) {
    harness.clock().SetWall(by);
    // The other session lets the compute thread look for expired ones.
    EXPECT_TRUE(harness.Step(StepOf(harness.CreateSession(), {1})).ok());
    EXPECT_TRUE(engine.GetSession("s").ok());
    EXPECT_TRUE(harness.Step(StepOf("s", {1})).ok());
    StepRequest step = StepOf("s", {1});
    step.deadline = harness.clock().Now() + absl::Seconds(1);
    EXPECT_TRUE(harness.Step(step).ok());
  }
  EXPECT_EQ(engine.GetSession("s")->last_step_time, harness.clock().WallNow());
  EXPECT_EQ(harness.Metric({"sessions_ended_total", "expired"}), 0);
}

TEST(EngineSessionTest, ExpiryFreesMemoryWithoutTraffic) {
  EngineHarness harness;
  harness.CreateSession("s");
  EXPECT_EQ(harness.Metric({"steadystate_state_bytes{"}),
            static_cast<double>(SessionBytes()));
  harness.clock().Advance(harness.engine().options().session_ttl);
  EXPECT_TRUE(Eventually([&harness] {
    return harness.Metric({"steadystate_state_bytes{"}) == 0;
  }));
}

TEST(EngineSessionTest, StateBytesAreToldAsTheyAre) {
  EngineHarness harness;
  const auto told = [&harness] {
    return harness.Metric({"steadystate_state_bytes{"});
  };
  harness.CreateSession("idle");
  harness.CreateSession("busy");
  // The compute thread, which tells them as well, stands still.
  auto hold = std::make_unique<ComputeHold>(harness);
  const double before = told();
  EXPECT_TRUE(harness.engine().DeleteSession("idle").ok());
  EXPECT_EQ(told(), before - static_cast<double>(SessionBytes()));
  const StepFuture step = harness.StepAsync(StepOf("busy", {1}));
  EXPECT_TRUE(harness.engine().DeleteSession("busy").ok());
  hold.reset();
  // Who hears that a session is gone finds its memory counted as free.
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(told(), before - 2 * static_cast<double>(SessionBytes()));
}

TEST(EngineSessionTest, TheMemoryOfTheExpiredIsThereForTheNext) {
  EngineOptions options;
  options.state_memory_bytes = SessionBytes();
  EngineHarness harness(options);
  for (int i = 0; i < 20; ++i) {
    const auto score = harness.Score(ScoreOf("", {1, 2}));
    EXPECT_TRUE(score->done().Get().ok()) << score->done().Get().status();
    harness.CreateSession();
    harness.clock().Advance(options.session_ttl);
  }
}

TEST(EngineSessionTest, StepsWaitForTheMemoryThatIsBeingCleared) {
  EngineOptions options;
  options.state_memory_bytes = SessionBytes();
  EngineHarness harness(options);
  harness.CreateSession("a");
  const auto first = harness.Step(StepOf("a", {1, 2}));
  ThreadHold hold("SessionKeeper::ClearOne");
  EXPECT_TRUE(harness.engine().DeleteSession("a").ok());
  hold.WaitUntilHeld();
  harness.CreateSession("b");
  StepRequest request = StepOf("b", {1, 2});
  request.writer = harness.engine().NewWriter();
  const StepFuture waits = harness.StepAsync(request);
  request.tokens = {3};
  const StepFuture behind = harness.StepAsync(request);
  RequestId cancelled_id = 0;
  const StepFuture cancelled = harness.StepAsync(request, &cancelled_id);
  harness.engine().Cancel(cancelled_id);
  EXPECT_EQ(ReasonOf(cancelled.Get().status()), ErrorReason::kCancelled);
  EXPECT_FALSE(waits.IsSet());
  EXPECT_EQ(harness.engine().GetSession("b")->tier, SessionTier::kElsewhere);
  hold.Release();
  ASSERT_TRUE(waits.Get().ok()) << waits.Get().status();
  EXPECT_EQ(waits.Get()->logits, first->logits);
  EXPECT_EQ(behind.Get()->position, 3u);
}

// What ends a request whose session waits for memory, and what it is told.
TEST(EngineSessionTest, WhoWaitsForMemoryCanBeEnded) {
  EngineOptions options;
  options.state_memory_bytes = SessionBytes();
  for (const char* how : {"cancel", "deadline", "delete", "destroy"}) {
    SCOPED_TRACE(how);
    EngineHarness harness(options);
    harness.CreateSession("a");
    ASSERT_TRUE(harness.Step(StepOf("a", {1})).ok());
    ThreadHold hold("SessionKeeper::ClearOne");
    EXPECT_TRUE(harness.engine().DeleteSession("a").ok());
    hold.WaitUntilHeld();
    harness.CreateSession("b");
    StepRequest request = StepOf("b", {1});
    request.deadline = harness.clock().Now() + absl::Seconds(5);
    RequestId id = 0;
    const StepFuture step = harness.StepAsync(request, &id);
    ErrorReason reason = ErrorReason::kDraining;
    std::thread destroyer;
    if (how[0] == 'c') {
      harness.engine().Cancel(id);
      reason = ErrorReason::kCancelled;
    } else if (how[0] == 'd' && how[2] == 'a') {
      harness.clock().Advance(absl::Seconds(5));
      reason = ErrorReason::kDeadlineExceeded;
    } else if (how[0] == 'd' && how[2] == 'l') {
      EXPECT_TRUE(harness.engine().DeleteSession("b").ok());
      reason = ErrorReason::kSessionNotFound;
    } else {
      destroyer = std::thread([&harness] { harness.DestroyEngine(); });
    }
    hold.Release();
    if (destroyer.joinable()) destroyer.join();
    const auto& answer = step.Get();
    // It may have computed before its end was noted.
    if (!answer.ok()) {
      EXPECT_EQ(ReasonOf(answer.status()), reason);
    }
  }
}

// As the service cancels a call whose client goes later.
TEST(EngineSessionTest, WhatADeletionHasEndedNoCancelEndsOtherwise) {
  EngineOptions options;
  options.state_memory_bytes = 2 * SessionBytes();
  EngineHarness harness(options);
  for (const char* id : {"a", "live"}) harness.CreateSession(id);
  ASSERT_TRUE(harness.Step(StepOf("a", {1})).ok());
  ThreadHold hold("SessionKeeper::ClearOne");
  EXPECT_TRUE(harness.engine().DeleteSession("a").ok());
  hold.WaitUntilHeld();
  harness.CreateSession("b");
  StepRequest request = StepOf("b", {1});
  request.writer = harness.engine().NewWriter();
  RequestId id = 0;
  const StepFuture waits = harness.StepAsync(request, &id);
  EXPECT_TRUE(harness.engine().DeleteSession("b").ok());
  EXPECT_TRUE(harness.Step(StepOf("live", {1})).ok());  // the deletion is noted
  harness.engine().Cancel(id);
  EXPECT_TRUE(harness.Step(StepOf("live", {1})).ok());  // and the cancel
  hold.Release();
  EXPECT_EQ(ReasonOf(waits.Get().status()), ErrorReason::kSessionNotFound);
}

TEST(EngineSessionTest, WorkHasItsPlaceAmongTheStepsOfASession) {
  EngineHarness harness;
  Engine& engine = harness.engine();
  for (const char* id : {"s", "t"}) harness.CreateSession(id);
  StepRequest step = StepOf("s", {1});
  step.writer = engine.NewWriter();
  WorkRequest work;
  work.session = "s";
  work.writer = step.writer;
  Future<uint64_t> position;
  Future<bool> go;
  work.work = [position, go](Session& session) {
    position.Set(session.state.position());
    go.Get();
    return absl::OkStatus();
  };
  const StepFuture before = harness.StepAsync(step);
  Future<absl::Status> worked;
  SubmitThen(engine, work,
             [worked](const auto& end) { worked.Set(end.status()); });
  const StepFuture after = harness.StepAsync(step);
  EXPECT_EQ(position.Get(), 1u);
  EXPECT_EQ(before.Get()->position, 1u);
  // Others go on meanwhile, and the lock is free.
  EXPECT_EQ(harness.Step(StepOf("t", {1}))->position, 1u);
  EXPECT_TRUE(engine.GetSession("s")->active);
  EXPECT_FALSE(after.IsSet());
  go.Set(true);
  EXPECT_TRUE(worked.Get().ok());
  EXPECT_EQ(after.Get()->position, 2u);
  // Its error is the answer; the session goes on.
  work.work = [](Session&) {
    return MakeError(ErrorReason::kInternal, "it went wrong");
  };
  Future<absl::Status> failed;
  SubmitThen(engine, work,
             [failed](const auto& end) { failed.Set(end.status()); });
  EXPECT_EQ(ReasonOf(failed.Get()), ErrorReason::kInternal);
  EXPECT_EQ(harness.Step(StepOf("s", {1}))->position, 3u);
}

TEST(EngineSessionTest, NobodyExpiresWhileQueued) {
  EngineHarness harness;
  harness.CreateSession("s");
  StepFuture step;
  {
    ComputeHold hold(harness);
    step = harness.StepAsync(StepOf("s", {1}));
    harness.clock().Advance(absl::Hours(100));
    EXPECT_TRUE(harness.engine().GetSession("s")->active);
  }
  EXPECT_EQ(step.Get()->position, 1u);
  EXPECT_TRUE(harness.engine().GetSession("s").ok());
}

TEST(EngineSessionTest, TheTtlBeginsWhenTheLastRequestEnds) {
  EngineHarness harness;
  Engine& engine = harness.engine();
  const absl::Duration ttl = engine.options().session_ttl;
  harness.CreateSession("s");
  // A reader that pauses for longer than the ttl, then goes.
  const auto sink = std::make_shared<Recorder<GenerateRequest>>();
  sink->set_limit(1);
  const RequestId id = *engine.Submit(GenerateOf("s", {1}, 100), sink);
  sink->AwaitItems(1);
  harness.clock().Advance(10 * ttl);
  engine.Cancel(id);
  EXPECT_EQ(ReasonOf(sink->done().Get().status()), ErrorReason::kCancelled);
  EXPECT_EQ(engine.GetSession("s")->expire_time,
            harness.clock().WallNow() + ttl);
  harness.clock().Advance(ttl - absl::Seconds(1));
  EXPECT_TRUE(engine.GetSession("s").ok());
  harness.clock().Advance(absl::Seconds(1));
  EXPECT_EQ(ReasonOf(engine.GetSession("s").status()),
            ErrorReason::kSessionExpired);
}

TEST(EngineSessionTest, TheHeartbeatGoesOnWhenIdle) {
  EngineHarness harness;
  harness.clock().Advance(absl::Hours(5));
  EXPECT_TRUE(Eventually([&harness] {
    return harness.engine().heartbeat() == harness.clock().Now();
  }));
}

TEST(EngineSessionTest, RequestsOfOneWriterQueueInOrder) {
  EngineHarness harness;
  harness.CreateSession("s");
  const WriterId writer = harness.engine().NewWriter();
  std::vector<StepFuture> steps;
  for (uint64_t i = 0; i < 20; ++i) {
    StepRequest request = StepOf("s", {1});
    request.writer = writer;
    request.expected_position = i;
    steps.push_back(harness.StepAsync(request));
  }
  for (uint64_t i = 0; i < steps.size(); ++i) {
    ASSERT_TRUE(steps[i].Get().ok()) << steps[i].Get().status();
    EXPECT_EQ(steps[i].Get()->position, i + 1);
  }
}

TEST(EngineSessionTest, AnotherWriterFindsTheSessionBusyUntilItIsAnswered) {
  EngineHarness harness;
  harness.CreateSession("s");
  StepFuture first;
  {
    ComputeHold hold(harness);
    first = harness.StepAsync(StepOf("s", {1}));
    EXPECT_EQ(ReasonOf(harness.Step(StepOf("s", {1})).status()),
              ErrorReason::kSessionBusy);
  }
  first.Get();
  EXPECT_EQ(harness.Step(StepOf("s", {1}))->position, 2u);
}

TEST(EngineSessionTest, AWrongPositionIsRefusedWithTheTrueOne) {
  EngineHarness harness;
  harness.CreateSession("s");
  const WriterId writer = harness.engine().NewWriter();
  StepRequest request = StepOf("s", {1});
  request.writer = writer;
  StepFuture steps[3];
  {
    ComputeHold hold(harness);  // position is checked when the turn comes
    steps[0] = harness.StepAsync(request);
    request.expected_position = 0;
    steps[1] = harness.StepAsync(request);
    request.expected_position = 1;
    steps[2] = harness.StepAsync(request);
  }
  EXPECT_EQ(steps[0].Get()->position, 1u);
  const absl::Status mismatch = steps[1].Get().status();
  EXPECT_EQ(ReasonOf(mismatch), ErrorReason::kPositionMismatch);
  EXPECT_EQ(MetadataOf(mismatch, "position"), "1");
  EXPECT_EQ(MetadataOf(mismatch, "expected_position"), "0");
  EXPECT_EQ(steps[2].Get()->position, 2u);
  EXPECT_EQ(harness.Metric({"position_mismatches_total{"}), 1);
}

TEST(EngineSessionTest, AFullQueueOfASessionRefuses) {
  EngineOptions options;
  options.max_queued_per_session = 3;
  EngineHarness harness(options);
  harness.CreateSession("s");
  StepRequest request = StepOf("s", {1});
  request.writer = harness.engine().NewWriter();
  std::vector<StepFuture> steps;
  StepFuture refused;
  {
    ComputeHold hold(harness);
    // One whose turn it is, and three waiting.
    for (int i = 0; i < 4; ++i) steps.push_back(harness.StepAsync(request));
    refused = harness.StepAsync(request);
    EXPECT_TRUE(refused.IsSet());
  }
  EXPECT_EQ(ReasonOf(refused.Get().status()), ErrorReason::kQueueFull);
  EXPECT_TRUE(GetErrorDetails(refused.Get().status())->retry_after.has_value());
  for (const StepFuture& step : steps) EXPECT_TRUE(step.Get().ok());
  EXPECT_EQ(harness.Position("s"), 4u);
  EXPECT_EQ(harness.Metric({"admission_rejections_total", "queue_full"}), 1);
}

TEST(EngineSessionTest, FullQueuesOfAllRefuse) {
  EngineOptions options;
  options.max_queued_requests = 2;
  options.max_queued_input_bytes = 100;
  EngineHarness harness(options);
  for (const char* id : {"a", "b", "c"}) harness.CreateSession(id);
  StepFuture a;
  StepFuture b;
  {
    ComputeHold hold(harness);
    // More than will ever have room.
    EXPECT_EQ(ReasonOf(harness.Step(StepOf("c", MakeTokens(26, 1))).status()),
              ErrorReason::kInvalidArgument);
    a = harness.StepAsync(StepOf("a", {1}));
    b = harness.StepAsync(StepOf("b", {1}));
    EXPECT_EQ(ReasonOf(harness.Step(StepOf("c", {1})).status()),
              ErrorReason::kQueueFull);
  }
  EXPECT_TRUE(a.Get().ok());
  EXPECT_TRUE(b.Get().ok());
  EXPECT_TRUE(harness.engine().WaitIdle(absl::Minutes(1)));
  EXPECT_TRUE(harness.Step(StepOf("c", MakeTokens(25, 1))).ok());
}

TEST(EngineSessionTest, OneClientLeavesRoomToOthers) {
  EngineOptions options;
  options.max_queued_requests = 4;
  options.max_queued_input_bytes = 1000;
  EngineHarness harness(options);
  for (const char* id : {"a", "b", "c", "d", "e"}) harness.CreateSession(id);
  const auto step = [](const char* id, size_t tokens, ClientId client) {
    StepRequest request = StepOf(id, MakeTokens(tokens, 1));
    request.client = client;
    return request;
  };
  const ComputeHold hold(harness);
  const StepFuture a = harness.StepAsync(step("a", 100, 1));
  // Of bytes it may have half.
  EXPECT_EQ(ReasonOf(harness.Step(step("b", 100, 1)).status()),
            ErrorReason::kQueueFull);
  const StepFuture b = harness.StepAsync(step("b", 1, 1));
  EXPECT_FALSE(b.IsSet());
  // Of places, too.
  const StepFuture c = harness.StepAsync(step("c", 1, 1));
  EXPECT_EQ(ReasonOf(c.Get().status()), ErrorReason::kQueueFull);
  const StepFuture d = harness.StepAsync(step("d", 100, 2));
  EXPECT_FALSE(d.IsSet());
}

TEST(EngineSessionTest, DrainRefusesWhatIsNewAndFinishesTheRest) {
  EngineHarness harness;
  Engine& engine = harness.engine();
  harness.CreateSession("s");
  EXPECT_TRUE(engine.WaitIdle(absl::ZeroDuration()));
  StepFuture step;
  {
    ComputeHold hold(harness);
    step = harness.StepAsync(StepOf("s", {1}));
    engine.BeginDrain();
    EXPECT_EQ(ReasonOf(engine.CreateSession({}).status()),
              ErrorReason::kDraining);
    EXPECT_EQ(ReasonOf(harness.Step(StepOf("s", {1})).status()),
              ErrorReason::kDraining);
    EXPECT_EQ(ReasonOf(harness.Score(ScoreOf("", {1}))->done().Get().status()),
              ErrorReason::kDraining);
    EXPECT_FALSE(engine.WaitIdle(absl::Milliseconds(1)));
  }
  EXPECT_TRUE(engine.WaitIdle(absl::InfiniteDuration()));
  EXPECT_TRUE(step.IsSet());
  EXPECT_EQ(step.Get()->position, 1u);
  EXPECT_EQ(engine.GetSession("s")->position, 1u);
  EXPECT_TRUE(engine.DeleteSession("s").ok());
}

TEST(EngineSessionTest, AbortEndsEvenStepsThatHaveBegun) {
  constexpr size_t kTokens = 1'000'000;
  EngineOptions options;
  options.prefill_chunk_rows = 1;  // many seconds of work
  options.max_step_tokens = kTokens;
  EngineHarness harness(options);
  Engine& engine = harness.engine();
  harness.CreateSession("s");
  const StepFuture step =
      harness.StepAsync(StepOf("s", MakeTokens(kTokens, 1)));
  while (engine.GetSession("s")->position == 0) std::this_thread::yield();
  engine.AbortRequests();
  EXPECT_TRUE(engine.WaitIdle(absl::InfiniteDuration()));
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kDraining);
  EXPECT_LT(engine.GetSession("s")->position, kTokens);
  // Not all of it, hence told.
  EXPECT_EQ(MetadataOf(step.Get().status(), "position"),
            absl::StrCat(engine.GetSession("s")->position));
  EXPECT_EQ(ReasonOf(engine.CreateSession({}).status()),
            ErrorReason::kDraining);
}

TEST(EngineSessionTest, ShutdownAnswersEverything) {
  EngineHarness harness;
  harness.CreateSession("s");
  harness.CreateSession("t");
  const auto endless = harness.Generate(GenerateOf("s", {1}, 1'000'000'000));
  endless->AwaitItems(1);
  auto hold = std::make_unique<ComputeHold>(harness);
  const StepFuture queued = harness.StepAsync(StepOf("t", {1}));
  std::thread destroyer([&harness] { harness.DestroyEngine(); });
  hold.reset();
  destroyer.join();
  EXPECT_EQ(ReasonOf(endless->done().Get().status()), ErrorReason::kDraining);
  // Whether it still ran is a matter of luck; answered it is.
  EXPECT_TRUE(queued.IsSet());
  EXPECT_EQ(harness.Metric({"sessions_ended_total", "shutdown"}), 3);
}

// However many have expired before, of which nobody has taken notice yet.
TEST(EngineSessionTest, ANameIsFreeWhenItsSessionHasExpired) {
  constexpr size_t kSessions = 100;
  EngineHarness harness;
  SessionOptions options;
  options.id = "busy";
  options.ttl = absl::Hours(100);
  ASSERT_TRUE(harness.engine().CreateSession(options).ok());
  for (size_t i = 0; i < kSessions; ++i) {
    harness.CreateSession(absl::StrCat("s", i));
    harness.clock().Advance(absl::Milliseconds(1));
  }
  // The keeper's thread has something else to do.
  Future<bool> begun;
  const Future<bool> released;
  WorkRequest work;
  work.session = "busy";
  work.work = [begun, released](Session&) {
    begun.Set(true);
    released.Get();
    return absl::OkStatus();
  };
  Future<absl::Status> done;
  SubmitThen(harness.engine(), std::move(work),
             [done](const auto& end) { done.Set(end.status()); });
  begun.Get();
  harness.clock().Advance(harness.engine().options().session_ttl);
  options.id = absl::StrCat("s", kSessions - 1);
  EXPECT_TRUE(harness.engine().CreateSession(options).ok());
  released.Set(true);
  EXPECT_TRUE(done.Get().ok());
}

}  // namespace
}  // namespace steadystate::engine_session_test
