// Goal: a request that ends early leaves its session where the contract says,
// and nobody else notices. Method: the compute thread is held inside a callback
// while deadlines pass, requests are cancelled and sessions deleted, so every
// case happens at a known point.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::engine_cancel_test {
namespace {

constexpr size_t kChunk = 4;

class EngineCancelTest : public testing::Test {
 protected:
  EngineCancelTest() : harness_(Options()) {}

  static EngineOptions Options() {
    EngineOptions options;
    options.prefill_chunk_rows = kChunk;
    return options;
  }

  Engine& engine() { return harness_.engine(); }

  SteadyTime In(absl::Duration time) { return harness_.clock().Now() + time; }

  // Begins `submit`s requests together with a generation of one token a batch,
  // and calls `act` after `batches` + 1 batches have run, while none runs.
  void AfterBatches(size_t batches, const std::function<void()>& submit,
                    const std::function<void()>& act) {
    Future<bool> reached;
    Future<bool> acted;
    std::shared_ptr<Recorder<GenerateRequest>> pacer;
    {
      ComputeHold hold(harness_);
      pacer = harness_.Generate(
          GenerateOf(harness_.CreateSession(), {1}, batches + 20));
      pacer->set_on_item([=](size_t items) {
        if (items != batches) return;
        reached.Set(true);
        acted.Get();
      });
      submit();
    }
    reached.Get();
    act();
    acted.Set(true);
    EXPECT_TRUE(pacer->done().Get().ok());
  }

  double Cancelled(const std::string& stage, const std::string& source) {
    return harness_.Metric({"steadystate_cancellations_total",
                            "stage=\"" + stage + "\"",
                            "source=\"" + source + "\""});
  }

  EngineHarness harness_;
};

TEST_F(EngineCancelTest, ADeadlineInThePastIsRefusedAtOnce) {
  harness_.CreateSession("s");
  StepRequest request = StepOf("s", {1, 2});
  request.deadline = In(absl::ZeroDuration());
  EXPECT_EQ(ReasonOf(harness_.Step(request).status()),
            ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(harness_.Position("s"), 0u);
  EXPECT_EQ(Cancelled("queued", "deadline"), 1);
}

TEST_F(EngineCancelTest, InTheQueueNothingHasChanged) {
  harness_.CreateSession("s");
  StepRequest overdue = StepOf("s", {1, 2});
  overdue.writer = engine().NewWriter();
  overdue.deadline = In(absl::Seconds(1));
  StepRequest behind = StepOf("s", {3});
  behind.writer = overdue.writer;
  behind.expected_position = 0;
  StepFuture first;
  StepFuture second;
  StepFuture third;
  {
    ComputeHold hold(harness_);
    first = harness_.StepAsync(overdue);
    second = harness_.StepAsync(behind);
    overdue.deadline = In(absl::Hours(1));
    third = harness_.StepAsync(overdue);
    harness_.clock().Advance(absl::Seconds(1));
  }
  EXPECT_EQ(ReasonOf(first.Get().status()), ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(second.Get()->position, 1u);
  EXPECT_EQ(third.Get()->position, 3u);
  EXPECT_EQ(Cancelled("queued", "deadline"), 1);
}

TEST_F(EngineCancelTest, CancelledInTheQueueNothingHasChanged) {
  harness_.CreateSession("s");
  StepRequest request = StepOf("s", {1, 2});
  request.writer = engine().NewWriter();
  StepFuture first;
  StepFuture second;
  {
    ComputeHold hold(harness_);
    RequestId id = 0;
    first = harness_.StepAsync(request, &id);
    second = harness_.StepAsync(request);
    engine().Cancel(id);
    engine().Cancel(id);  // once is enough
  }
  EXPECT_EQ(ReasonOf(first.Get().status()), ErrorReason::kCancelled);
  EXPECT_EQ(second.Get()->position, 2u);
  EXPECT_EQ(Cancelled("queued", "client"), 1);
}

TEST_F(EngineCancelTest, AStepThatHasBegunIsCarriedThrough) {
  harness_.CreateSession("s");
  harness_.CreateSession("t");
  const auto tokens = MakeTokens(10 * kChunk, 1);
  StepRequest overdue = StepOf("s", tokens);
  overdue.deadline = In(absl::Seconds(1));
  StepFuture late;
  StepFuture cancelled;
  RequestId id = 0;
  AfterBatches(
      1,
      [&] {
        late = harness_.StepAsync(overdue);
        cancelled = harness_.StepAsync(StepOf("t", tokens), &id);
      },
      [&] {
        EXPECT_EQ(harness_.Position("s") % kChunk, 0u);
        EXPECT_GT(harness_.Position("s"), 0u);
        EXPECT_LT(harness_.Position("s"), tokens.size());
        harness_.clock().Advance(absl::Seconds(2));
        engine().Cancel(id);
      });
  EXPECT_EQ(late.Get()->position, tokens.size());
  EXPECT_EQ(cancelled.Get()->position, tokens.size());
  EXPECT_EQ(harness_.Position("s"), tokens.size());
  engine().Cancel(id);  // answered: ignored
  EXPECT_EQ(Cancelled("running", "client"), 0);
  EXPECT_EQ(Cancelled("running", "deadline"), 0);
}

TEST_F(EngineCancelTest, ACancelledGenerationKeepsWhatItReturned) {
  for (const bool by_deadline : {false, true}) {
    const std::string session = harness_.CreateSession();
    GenerateRequest request = GenerateOf(session, MakeTokens(6, 2), 100);
    if (by_deadline) request.deadline = In(absl::Seconds(1));
    RequestId id = 0;
    Future<bool> reached;
    Future<bool> acted;
    std::shared_ptr<Recorder<GenerateRequest>> sink;
    {
      ComputeHold hold(harness_);
      sink = harness_.Generate(request, &id);
      sink->set_on_item([=](size_t items) {
        if (items != 3) return;
        reached.Set(true);
        acted.Get();
      });
    }
    reached.Get();
    if (by_deadline) {
      harness_.clock().Advance(absl::Seconds(1));
    } else {
      engine().Cancel(id);
    }
    acted.Set(true);
    EXPECT_EQ(
        ReasonOf(sink->done().Get().status()),
        by_deadline ? ErrorReason::kDeadlineExceeded : ErrorReason::kCancelled);
    EXPECT_EQ(sink->items().size(), 3u);
    EXPECT_EQ(sink->items().back().position, 9u);
    EXPECT_EQ(harness_.Position(session), 9u);

    // The state holds what was returned, not the token drawn after it.
    const std::string other = harness_.CreateSession();
    ASSERT_TRUE(harness_.Step(StepOf(other, MakeTokens(6, 2))).ok());
    for (const auto& item : sink->items()) {
      ASSERT_TRUE(harness_.Step(StepOf(other, {item.token})).ok());
    }
    EXPECT_EQ(harness_.Step(StepOf(session, {5}))->logits,
              harness_.Step(StepOf(other, {5}))->logits);
  }
  EXPECT_EQ(Cancelled("running", "client"), 1);
  EXPECT_EQ(Cancelled("running", "deadline"), 1);
}

TEST_F(EngineCancelTest, APromptCancelledInTheMiddleKeepsItsFirstPieces) {
  harness_.CreateSession("s");
  RequestId id = 0;
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  AfterBatches(
      1,
      [&] {
        sink = harness_.Generate(GenerateOf("s", MakeTokens(40, 1), 1), &id);
      },
      [&] { engine().Cancel(id); });
  EXPECT_EQ(ReasonOf(sink->done().Get().status()), ErrorReason::kCancelled);
  EXPECT_TRUE(sink->items().empty());
  EXPECT_EQ(harness_.Position("s"), 2 * kChunk);
}

TEST_F(EngineCancelTest, ACancelledScoreKeepsWhatItReturned) {
  harness_.CreateSession("s");
  RequestId id = 0;
  std::shared_ptr<Recorder<ScoreRequest>> sink;
  {
    ComputeHold hold(harness_);
    sink = harness_.Score(ScoreOf("s", MakeTokens(40, 1)), &id);
    sink->set_limit(2 * kChunk);
  }
  sink->AwaitItems(2 * kChunk);
  engine().Cancel(id);  // while it is paused
  EXPECT_EQ(ReasonOf(sink->done().Get().status()), ErrorReason::kCancelled);
  EXPECT_EQ(sink->items().size(), 2 * kChunk);
  EXPECT_EQ(harness_.Position("s"), 2 * kChunk);
}

TEST_F(EngineCancelTest, APausedRequestKeepsItsDeadline) {
  harness_.CreateSession("s");
  GenerateRequest request = GenerateOf("s", {1}, 10);
  request.deadline = In(absl::Seconds(1));
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  {
    ComputeHold hold(harness_);
    sink = harness_.Generate(request);
    sink->set_limit(2);
  }
  sink->AwaitItems(2);
  harness_.clock().Advance(absl::Seconds(1));
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(harness_.Position("s"), 3u);
}

// A client cancels when its deadline passes.
TEST_F(EngineCancelTest, CancelledAfterTheDeadlineItIsOverdue) {
  harness_.CreateSession("s");
  GenerateRequest request = GenerateOf("s", {1}, 10);
  request.deadline = In(absl::Seconds(1));
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  {
    ComputeHold hold(harness_);
    RequestId id = 0;
    sink = harness_.Generate(request, &id);
    harness_.clock().Advance(absl::Seconds(1));
    engine().Cancel(id);
  }
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(Cancelled("queued", "deadline"), 1);
}

TEST_F(EngineCancelTest, DeletionEndsARunningGenerationAndWhatIsQueued) {
  harness_.CreateSession("s");
  GenerateRequest request = GenerateOf("s", {1}, 1000);
  request.writer = engine().NewWriter();
  StepRequest behind = StepOf("s", {1});
  behind.writer = request.writer;
  Future<bool> reached;
  Future<bool> acted;
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  {
    ComputeHold hold(harness_);
    sink = harness_.Generate(request);
    sink->set_on_item([=](size_t items) {
      if (items != 2) return;
      reached.Set(true);
      acted.Get();
    });
  }
  reached.Get();
  const StepFuture step = harness_.StepAsync(behind);
  EXPECT_TRUE(engine().DeleteSession("s").ok());
  EXPECT_EQ(ReasonOf(engine().GetSession("s").status()),
            ErrorReason::kSessionNotFound);
  // The id is free at once, for a session of its own.
  harness_.CreateSession("s");
  acted.Set(true);
  EXPECT_EQ(ReasonOf(sink->done().Get().status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(sink->items().size(), 2u);
  EXPECT_EQ(harness_.Position("s"), 0u);
}

TEST_F(EngineCancelTest, DeletionEndsAStepThatHasBegun) {
  harness_.CreateSession("s");
  StepFuture step;
  AfterBatches(
      1, [&] { step = harness_.StepAsync(StepOf("s", MakeTokens(1000, 1))); },
      [&] { EXPECT_TRUE(engine().DeleteSession("s").ok()); });
  EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(harness_.Step(StepOf("s", {1})).status()),
            ErrorReason::kSessionNotFound);
  // It did not go on for long: a few pieces of four tokens.
  EXPECT_LT(harness_.Metric({"steadystate_tokens_total", "kind=\"prompt\""}),
            100);
}

// What clients and sessions that are gone have left keeps nobody waiting.
TEST_F(EngineCancelTest, NothingRunsForSessionsThatAreGone) {
  constexpr size_t kSessions = 20;
  const size_t most = engine().options().max_step_tokens;
  std::vector<StepFuture> steps;
  for (size_t i = 0; i < kSessions; ++i) {
    harness_.CreateSession(absl::StrCat("s", i));
  }
  AfterBatches(
      1,
      [&] {
        for (size_t i = 0; i < kSessions; ++i) {
          steps.push_back(harness_.StepAsync(
              StepOf(absl::StrCat("s", i), MakeTokens(most, i))));
        }
      },
      [&] {
        EXPECT_GE(harness_.Metric({"steadystate_requests_running"}), kSessions);
        for (size_t i = 0; i < kSessions; ++i) {
          EXPECT_TRUE(engine().DeleteSession(absl::StrCat("s", i)).ok());
        }
      });
  for (const StepFuture& step : steps) {
    EXPECT_EQ(ReasonOf(step.Get().status()), ErrorReason::kSessionNotFound);
  }
  EXPECT_LT(harness_.Metric({"steadystate_tokens_total", "kind=\"prompt\""}),
            100 * kSessions);
  EXPECT_TRUE(engine().WaitIdle(absl::Minutes(1)));
  harness_.CreateSession("last");
  EXPECT_EQ(harness_.Metric({"steadystate_requests_running"}), 0);
}

TEST_F(EngineCancelTest, DeletionGivesTheMemoryBackBeforeTheAnswer) {
  EngineOptions options = Options();
  options.state_memory_bytes =
      engine().GetSession(harness_.CreateSession())->state_bytes;
  EngineHarness harness(options);
  harness.CreateSession("s");
  const auto sink = harness.Generate(GenerateOf("s", {1}, 1'000'000));
  sink->AwaitItems(2);
  EXPECT_TRUE(harness.engine().DeleteSession("s").ok());
  sink->done().Get();
  harness.CreateSession("t");
}

TEST_F(EngineCancelTest, UnknownIdsAreIgnored) {
  engine().Cancel(123456);
  engine().Wake(123456);
  EXPECT_EQ(harness_.Step(StepOf(harness_.CreateSession(), {1}))->position, 1u);
}

}  // namespace
}  // namespace steadystate::engine_cancel_test
