// Goal: a step makes its session and ends it, in one with its computation:
// nobody finds a session that lacks its first step, or one whose last step was
// answered, and what fails leaves things as they were. Method: without a store
// and with one that logs; what steps answer is compared with those of an
// ordinary session.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/memory_store.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::engine_sequence_test {
namespace {

// How a step stands in its sequence.
enum class At : uint8_t { kStart, kMiddle, kEnd, kAlone };

class EngineSequenceTest : public testing::TestWithParam<bool> {
 protected:
  EngineSequenceTest() { Open(); }

  void Open() {
    EngineOptions options;
    options.history = 16;
    options.prefill_chunk_rows = 4;
    if (HasStore()) options.durability = Durability::kLog;
    harness_.reset();
    harness_.emplace(options, SharedTinyModel(),
                     HasStore() ? &store_ : nullptr);
    writer_ = engine().NewWriter();
  }

  bool HasStore() const { return GetParam(); }
  Engine& engine() { return harness_->engine(); }

  StepRequest Of(const std::string& session, At at,
                 std::vector<int32_t> tokens) {
    StepRequest request = StepOf(session, std::move(tokens));
    request.starts = at == At::kStart || at == At::kAlone;
    request.ends = at == At::kEnd || at == At::kAlone;
    request.writer = writer_;
    return request;
  }
  StepFuture Send(const std::string& session, At at,
                  std::vector<int32_t> tokens) {
    return harness_->StepAsync(Of(session, at, std::move(tokens)));
  }
  absl::StatusOr<StepRecord> Step(const StepRequest& request) {
    return harness_->StepAsync(request).Get();
  }

  // What a session of its own answers to the last of these steps.
  std::vector<float> Expected(const std::vector<std::vector<int32_t>>& steps) {
    harness_->CreateSession("plain");
    std::vector<float> logits;
    for (const auto& tokens : steps) {
      logits = harness_->Step(StepOf("plain", tokens))->logits;
    }
    EXPECT_TRUE(engine().DeleteSession("plain").ok());
    return logits;
  }
  size_t CountSessions() {
    return engine().ListSessions(1000, "")->sessions.size();
  }

  MemoryStore store_;
  std::optional<EngineHarness> harness_;
  WriterId writer_ = 0;
};

TEST_P(EngineSequenceTest, IsMadeByItsFirstStepAndGoneAfterItsLast) {
  const auto expected = Expected({{1, 2, 3}, {4}, {5, 6}});
  const auto first = Step(Of("a", At::kStart, {1, 2, 3}));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->position, 3u);
  EXPECT_EQ(engine().GetSession("a")->position, 3u);
  EXPECT_FALSE(engine().GetSession("a")->ephemeral);
  EXPECT_EQ(Step(Of("a", At::kMiddle, {4}))->position, 4u);
  const auto last = Step(Of("a", At::kEnd, {5, 6}));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->logits, expected);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(Step(Of("a", At::kMiddle, {4})).status()),
            ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(Step(Of("a", At::kEnd, {4})).status()),
            ErrorReason::kSessionNotFound);
  // One step may be all of it.
  const auto alone = Step(Of("b", At::kAlone, {1, 2, 3}));
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->logits, first->logits);
  EXPECT_EQ(CountSessions(), 0u);
  if (!HasStore()) return;
  Open();
  EXPECT_EQ(CountSessions(), 0u);
}

TEST_P(EngineSequenceTest, OutlastsItsServerAsOtherSessionsDo) {
  if (!HasStore()) GTEST_SKIP() << "there is no store to have it";
  const auto expected = Expected({{1, 2, 3}, {4}});
  ASSERT_TRUE(Step(Of("a", At::kStart, {1, 2, 3})).ok());
  Open();
  EXPECT_EQ(Step(Of("a", At::kEnd, {4}))->logits, expected);
}

TEST_P(EngineSequenceTest, AStartBeginsAnewWhereThereIsOneAlready) {
  const auto expected = Expected({{7, 8}});
  // Further than it remembers the way back.
  ASSERT_TRUE(Step(Of("a", At::kStart, MakeTokens(60, 1))).ok());
  ASSERT_TRUE(Step(Of("a", At::kMiddle, {1})).ok());
  for (int i = 0; i < 2; ++i) {
    const auto anew = Step(Of("a", At::kStart, {7, 8}));
    ASSERT_TRUE(anew.ok()) << anew.status();
    EXPECT_EQ(anew->position, 2u);
    EXPECT_EQ(anew->logits, expected);
  }
  if (HasStore()) Open();
  EXPECT_EQ(Step(Of("a", At::kMiddle, {9}))->position, 3u);
}

TEST_P(EngineSequenceTest, StepsSentAheadGoInOrderEachInItsOwnSequence) {
  const auto expected = Expected({{3}, {4}});
  std::vector<StepFuture> good;
  StepFuture lost;
  {
    ComputeHold hold(*harness_);
    good.push_back(Send("a", At::kStart, {1}));
    good.push_back(Send("a", At::kEnd, {2}));
    lost = Send("a", At::kMiddle, {9});
    good.push_back(Send("a", At::kStart, {3}));
    good.push_back(Send("a", At::kEnd, {4}));
  }
  std::vector<uint64_t> positions;
  for (const StepFuture& step : good) {
    ASSERT_TRUE(step.Get().ok()) << step.Get().status();
    positions.push_back(step.Get()->position);
  }
  EXPECT_EQ(positions, (std::vector<uint64_t>{1, 2, 1, 2}));
  EXPECT_EQ(good.back().Get()->logits, expected);
  EXPECT_EQ(ReasonOf(lost.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
}

TEST_P(EngineSequenceTest, AStartThatFailsLeavesNothingToGoOnWith) {
  StepFuture first;
  StepFuture behind;
  StepFuture anew;
  {
    ComputeHold hold(*harness_);
    StepRequest late = Of("a", At::kStart, {1});
    late.timeout = absl::Seconds(5);
    first = harness_->StepAsync(late);
    behind = Send("a", At::kMiddle, {2});
    StepRequest other = Of("b", At::kStart, {1});
    other.timeout = absl::Seconds(5);
    harness_->StepAsync(other);
    anew = Send("b", At::kStart, {3});
    harness_->clock().Advance(absl::Seconds(6));
  }
  EXPECT_EQ(ReasonOf(first.Get().status()), ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(ReasonOf(behind.Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
  ASSERT_TRUE(anew.Get().ok()) << anew.Get().status();
  EXPECT_EQ(anew.Get()->position, 1u);
}

TEST_P(EngineSequenceTest, WhatTheEndOfAServerCutsIsAnsweredOnce) {
  std::vector<StepFuture> steps;
  {
    ComputeHold hold(*harness_);
    for (const At at : {At::kStart, At::kMiddle, At::kEnd, At::kStart}) {
      steps.push_back(Send("a", at, {1}));
    }
    engine().AbortRequests();
  }
  EXPECT_EQ(ReasonOf(steps[0].Get().status()), ErrorReason::kDraining);
  EXPECT_EQ(ReasonOf(steps[1].Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(steps[2].Get().status()), ErrorReason::kSessionNotFound);
  EXPECT_EQ(ReasonOf(steps[3].Get().status()), ErrorReason::kDraining);
  EXPECT_EQ(ReasonOf(engine().GetSession("a").status()),
            ErrorReason::kSessionNotFound);
}

TEST_P(EngineSequenceTest, AnEndThatFailsLeavesItsSession) {
  ASSERT_TRUE(Step(Of("a", At::kStart, {1, 2})).ok());
  StepRequest wrong = Of("a", At::kEnd, {3});
  wrong.expected_position = 5;
  EXPECT_EQ(ReasonOf(Step(wrong).status()), ErrorReason::kPositionMismatch);
  EXPECT_EQ(harness_->Position("a"), 2u);
  // So does a start of one that there is, that does not come to its turn.
  StepFuture late;
  {
    ComputeHold hold(*harness_);
    StepRequest start = Of("a", At::kStart, {1});
    start.timeout = absl::Seconds(5);
    late = harness_->StepAsync(start);
    harness_->clock().Advance(absl::Seconds(6));
  }
  EXPECT_EQ(ReasonOf(late.Get().status()), ErrorReason::kDeadlineExceeded);
  EXPECT_EQ(harness_->Position("a"), 2u);
}

TEST_P(EngineSequenceTest, ARepeatOfAStartStartsNothing) {
  StepRequest start = Of("a", At::kStart, {1, 2});
  start.request_id = "first";
  start.expected_position = 0;
  const auto first = Step(start);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto again = Step(start);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->replayed);
  EXPECT_EQ(again->logits, first->logits);
  EXPECT_EQ(harness_->Position("a"), 2u);
  // One of another name is none.
  start.request_id = "second";
  ASSERT_TRUE(Step(Of("a", At::kMiddle, {3})).ok());
  EXPECT_FALSE(Step(start)->replayed);
  EXPECT_EQ(harness_->Position("a"), 2u);
}

TEST_P(EngineSequenceTest, AStartBehindAnEndIsNoRepeatOfTheOneBefore) {
  // As whoever numbers the requests of each sequence anew sends them.
  const auto keyed = [this](At at, uint64_t position,
                            std::vector<int32_t> tokens) {
    StepRequest step = Of("a", at, std::move(tokens));
    step.request_id = absl::StrCat(position);
    step.expected_position = position;
    return step;
  };
  for (const int32_t token : {1, 7}) {
    const auto expected = Expected({{token, 2}, {9}});
    std::vector<StepFuture> steps;
    {
      ComputeHold hold(*harness_);
      for (const StepRequest& step :
           {keyed(At::kStart, 0, {1, 2}), keyed(At::kMiddle, 2, {3}),
            keyed(At::kEnd, 3, {4}), keyed(At::kStart, 0, {token, 2})}) {
        steps.push_back(harness_->StepAsync(step));
      }
    }
    for (const StepFuture& step : steps) {
      ASSERT_TRUE(step.Get().ok()) << step.Get().status();
      EXPECT_FALSE(step.Get()->replayed);
    }
    EXPECT_EQ(steps.back().Get()->position, 2u);
    // What it begins with has records of its own.
    EXPECT_TRUE(Step(keyed(At::kStart, 0, {token, 2}))->replayed);
    EXPECT_EQ(ReasonOf(Step(keyed(At::kMiddle, 3, {4})).status()),
              ErrorReason::kPositionMismatch);
    EXPECT_EQ(Step(keyed(At::kEnd, 2, {9}))->logits, expected);
  }
}

TEST_P(EngineSequenceTest, AnEndIsAnsweredWhenItsSessionCannotComeBack) {
  if (!HasStore()) GTEST_SKIP() << "there is no store to bring it back";
  ASSERT_TRUE(Step(Of("a", At::kStart, {1, 2})).ok());
  StepFuture end;
  {
    ThreadHold hold("SessionRemover::LogSome");
    end = Send("a", At::kEnd, {3});
    hold.WaitUntilHeld();
    EXPECT_FALSE(end.IsSet());
    store_.FailLog(true);
  }
  EXPECT_EQ(ReasonOf(end.Get().status()), ErrorReason::kStoreUnavailable);
  // Nor is it there for others until that is over.
  EXPECT_EQ(ReasonOf(Step(Of("a", At::kStart, {1})).status()),
            ErrorReason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Step(Of("a", At::kEnd, {3})).status()),
            ErrorReason::kStoreUnavailable);
  store_.FailLog(false);
  while (absl::IsUnavailable(engine().GetSession("a").status())) {
    harness_->clock().Advance(absl::Milliseconds(100));
    std::this_thread::yield();
  }
  ASSERT_TRUE(Step(Of("a", At::kStart, {1})).ok());
  Open();
  EXPECT_EQ(harness_->Position("a"), 1u);
}

TEST_P(EngineSequenceTest, AnEndBeforeAStartIsAnsweredWhenThatHasBegun) {
  if (!HasStore()) GTEST_SKIP() << "there is no store to bring it back";
  for (const bool fails : {false, true}) {
    ASSERT_TRUE(Step(Of("a", At::kStart, {1, 2})).ok());
    StepFuture end;
    StepFuture start;
    {
      // Before the store has what the start makes of it.
      ThreadHold hold("SessionSaver::Put");
      ComputeHold compute(*harness_);
      end = Send("a", At::kEnd, {3});
      start = Send("a", At::kStart, {4});
      compute.Release();
      hold.WaitUntilHeld();
      EXPECT_FALSE(end.IsSet());
      store_.FailWrites(fails);
    }
    EXPECT_EQ(start.Get().ok(), !fails) << start.Get().status();
    // If it cannot begin, the session is over all the same.
    ASSERT_TRUE(end.Get().ok()) << end.Get().status();
    EXPECT_EQ(end.Get()->position, 3u);
    store_.FailWrites(false);
    Open();
    EXPECT_EQ(engine().GetSession("a").ok(), !fails);
  }
}

TEST_P(EngineSequenceTest, WhatIsRefusedMakesNothing) {
  EXPECT_EQ(ReasonOf(Step(Of("a", At::kStart, {-1})).status()),
            ErrorReason::kTokenOutOfRange);
  StepRequest elsewhere = Of("a", At::kStart, {1});
  elsewhere.expected_position = 3;
  EXPECT_EQ(ReasonOf(Step(elsewhere).status()), ErrorReason::kInvalidArgument);
  EXPECT_EQ(ReasonOf(Step(Of("A b", At::kStart, {1})).status()),
            ErrorReason::kInvalidArgument);
  EXPECT_EQ(ReasonOf(Step(Of("", At::kStart, {1})).status()),
            ErrorReason::kInvalidArgument);
  StepRequest both = Of("a", At::kStart, {1});
  both.ephemeral = true;
  EXPECT_EQ(ReasonOf(Step(both).status()), ErrorReason::kInvalidArgument);
  EXPECT_EQ(CountSessions(), 0u);
}

TEST_P(EngineSequenceTest, AStepWithoutASessionHasAStateOfItsOwn) {
  const auto tokens = MakeTokens(11, 3);
  const auto expected = Expected({tokens});
  for (int i = 0; i < 3; ++i) {
    const auto alone = Step(StepOf("", tokens));
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(alone->position, 11u);
    EXPECT_EQ(alone->logits, expected);
  }
  StepRequest placed = StepOf("", {1});
  placed.expected_position = 0;
  EXPECT_EQ(ReasonOf(Step(placed).status()), ErrorReason::kInvalidArgument);
  EXPECT_EQ(CountSessions(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Stores, EngineSequenceTest, testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "WithAStore" : "InMemory";
                         });

}  // namespace
}  // namespace steadystate::engine_sequence_test
