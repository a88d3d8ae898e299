// Goal: steps that are submitted together share a batch, and their sinks are
// told once when the answers of a round have been given. Method: sinks that
// note what they are told, on a tiny model.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/mutex.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate {
namespace {

// Notes answers by tag, and the order of all calls.
class NotingSink final : public StepSink {
 public:
  void OnSteps(std::span<const StepAnswer> answers) override {
    const MutexLock lock(mutex_);
    for (const StepAnswer& answer : answers) {
      answers_.emplace(answer.tag, *answer.result);
      calls_ += 's';
    }
  }
  void OnRoundEnd() override {
    const MutexLock lock(mutex_);
    calls_ += '|';
    changed_.SignalAll();
  }

  // The calls until there are so many answers and their rounds have ended: 's'
  // for an answer, '|' for the end of a round.
  std::string Await(size_t answers) {
    const MutexLock lock(mutex_);
    while (answers_.size() < answers || calls_.back() != '|') {
      if (!changed_.WaitFor(mutex_, std::chrono::minutes(1))) break;
    }
    return calls_;
  }
  const absl::StatusOr<StepResult>& answer(uint64_t tag) {
    const MutexLock lock(mutex_);
    return answers_.at(tag);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, absl::StatusOr<StepResult>> answers_
      ABSL_GUARDED_BY(mutex_);
  std::string calls_ ABSL_GUARDED_BY(mutex_);
};

StepSubmission SubmissionOf(const std::string& session, int32_t token,
                            StepSink& sink, uint64_t tag) {
  StepSubmission submission = {.request = StepOf(session, {token}),
                               .sink = &sink,
                               .tag = tag,
                               .refusal = {}};
  submission.request.writer = 1;
  return submission;
}

TEST(EngineStepsTest, ShareABatchAndARound) {
  constexpr size_t kSteps = 40;
  // Declared first: they outlive the engine's last call.
  NotingSink even;
  NotingSink odd;
  EngineHarness harness;
  std::vector<StepSubmission> steps;
  for (size_t i = 0; i < kSteps; ++i) {
    steps.push_back(SubmissionOf(harness.CreateSession(absl::StrCat("s", i)),
                                 static_cast<int32_t>(i),
                                 i % 2 == 0 ? even : odd, i));
  }
  harness.engine().Steps(steps);
  const std::string expected = std::string(kSteps / 2, 's') + "|";
  EXPECT_EQ(even.Await(kSteps / 2), expected);
  EXPECT_EQ(odd.Await(kSteps / 2), expected);
  EXPECT_EQ(harness.Metric({"steadystate_batch_size_count"}), 1);
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_TRUE(steps[i].refusal.ok());
    const auto& got = (i % 2 == 0 ? even : odd).answer(i);
    ASSERT_TRUE(got.ok());
    const auto alone = harness.Step(
        StepOf(harness.CreateSession(), {static_cast<int32_t>(i)}));
    EXPECT_EQ(got->logits, alone->logits) << i;
  }
}

TEST(EngineStepsTest, OfOneSessionKeepTheirOrder) {
  NotingSink sink;
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  std::vector<StepSubmission> steps;
  for (uint64_t i = 0; i < 10; ++i) {
    steps.push_back(SubmissionOf(session, 1, sink, i));
  }
  harness.engine().Steps(steps);
  std::string expected;
  for (int i = 0; i < 10; ++i) expected += "s|";
  EXPECT_EQ(sink.Await(10), expected);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(sink.answer(i)->position, i + 1);
  }
}

TEST(EngineStepsTest, RefusalsAreReturnedAndHoldNobodyUp) {
  NotingSink sink;
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  std::vector<StepSubmission> steps;
  steps.push_back(SubmissionOf(session, -1, sink, 0));
  steps.push_back(SubmissionOf("none", 1, sink, 1));
  steps.push_back(SubmissionOf(session, 1, sink, 2));
  harness.engine().Steps(steps);
  EXPECT_EQ(ReasonOf(steps[0].refusal), ErrorReason::kTokenOutOfRange);
  EXPECT_EQ(ReasonOf(steps[1].refusal), ErrorReason::kSessionNotFound);
  EXPECT_TRUE(steps[2].refusal.ok());
  EXPECT_EQ(sink.Await(1), "s|");
  EXPECT_EQ(sink.answer(2)->position, 1u);
}

TEST(EngineStepsTest, AStepShowsNothingOfTheOneBefore) {
  NotingSink sink;
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  StepSubmission step = SubmissionOf(session, 1, sink, 0);
  step.request.outputs.hidden = true;
  step.request.outputs.top_logprobs = 3;
  step.request.outputs.sampling.emplace();
  harness.engine().Steps({&step, 1});
  sink.Await(1);
  EXPECT_EQ(sink.answer(0)->top_logprobs.size(), 3u);
  EXPECT_TRUE(sink.answer(0)->sampled_token.has_value());

  step = SubmissionOf(session, 1, sink, 1);
  step.request.expected_position = 9;
  harness.engine().Steps({&step, 1});
  sink.Await(2);
  EXPECT_EQ(ReasonOf(sink.answer(1).status()), ErrorReason::kPositionMismatch);

  step = SubmissionOf(session, 1, sink, 2);
  step.request.outputs = {};
  harness.engine().Steps({&step, 1});
  sink.Await(3);
  ASSERT_TRUE(sink.answer(2).ok());
  EXPECT_EQ(sink.answer(2)->position, 2u);
  EXPECT_FALSE(sink.answer(2)->sampled_token.has_value());
  EXPECT_FALSE(sink.answer(2)->sampled_logprob.has_value());
  EXPECT_TRUE(sink.answer(2)->top_logprobs.empty());
  EXPECT_TRUE(sink.answer(2)->logits.empty());
  EXPECT_TRUE(sink.answer(2)->hidden.empty());
}

TEST(EngineStepsTest, WhatIsRefusedWhenItsTurnComesEndsARoundToo) {
  NotingSink sink;
  EngineHarness harness;
  StepSubmission step = SubmissionOf(harness.CreateSession(), 1, sink, 7);
  step.request.expected_position = 9;
  harness.engine().Steps({&step, 1});
  EXPECT_EQ(sink.Await(1), "s|");
  EXPECT_EQ(ReasonOf(sink.answer(7).status()), ErrorReason::kPositionMismatch);
}

}  // namespace
}  // namespace steadystate
