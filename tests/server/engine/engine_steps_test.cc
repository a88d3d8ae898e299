// Goal: steps that are submitted together share a batch, and their receivers
// are told once when the answers of a round have been given. Method: receivers
// that note what they are told, on a tiny model.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/mutex.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::engine_steps_test {
namespace {

// Notes answers by tag, and the order of all calls.
class NotingReceiver final : public Receiver<StepRequest> {
 public:
  void OnAnswers(std::span<const Answer<StepRequest>> answers) override {
    const MutexLock lock(mutex_);
    for (const Answer<StepRequest>& answer : answers) {
      answers_.emplace(answer.tag, RecordOf(*answer.end));
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
  const absl::StatusOr<StepRecord>& answer(uint64_t tag) {
    const MutexLock lock(mutex_);
    return answers_.at(tag);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<uint64_t, absl::StatusOr<StepRecord>> answers_
      ABSL_GUARDED_BY(mutex_);
  std::string calls_ ABSL_GUARDED_BY(mutex_);
};

using StepSubmission = Submission<StepRequest>;

StepSubmission SubmissionOf(const std::string& session, int32_t token,
                            std::shared_ptr<NotingReceiver> receiver,
                            uint64_t tag) {
  StepSubmission submission = {.request = StepOf(session, {token}),
                               .receiver = std::move(receiver),
                               .tag = tag,
                               .refusal = {}};
  submission.request.writer = 1;
  return submission;
}

void Submit(EngineHarness& harness, std::vector<StepSubmission>& steps) {
  harness.engine().Submit(std::span(steps));
}

TEST(EngineStepsTest, ShareABatchAndARound) {
  constexpr size_t kSteps = 40;
  const auto even = std::make_shared<NotingReceiver>();
  const auto odd = std::make_shared<NotingReceiver>();
  EngineHarness harness;
  std::vector<StepSubmission> steps;
  for (size_t i = 0; i < kSteps; ++i) {
    steps.push_back(SubmissionOf(harness.CreateSession(absl::StrCat("s", i)),
                                 static_cast<int32_t>(i),
                                 i % 2 == 0 ? even : odd, i));
  }
  Submit(harness, steps);
  const std::string expected = std::string(kSteps / 2, 's') + "|";
  EXPECT_EQ(even->Await(kSteps / 2), expected);
  EXPECT_EQ(odd->Await(kSteps / 2), expected);
  EXPECT_EQ(harness.Metric({"steadystate_batch_size_count"}), 1);
  for (size_t i = 0; i < kSteps; ++i) {
    EXPECT_TRUE(steps[i].refusal.ok());
    const auto& got = (i % 2 == 0 ? even : odd)->answer(i);
    ASSERT_TRUE(got.ok());
    const auto alone = harness.Step(
        StepOf(harness.CreateSession(), {static_cast<int32_t>(i)}));
    EXPECT_EQ(got->logits, alone->logits) << i;
  }
}

// Anything may be drawn, so most characters are cut, and many are none.
TEST(EngineStepsTest, TextIsThatOfAGeneration) {
  constexpr uint64_t kTokens = 300;
  EngineHarness harness;
  std::vector<int32_t> prompt = {'a', 'b'};
  harness.CreateSession("whole");
  GenerateRequest generate = GenerateOf("whole", prompt, kTokens);
  generate.sampling.seed = 11;
  std::string whole;
  const auto recorder = harness.Generate(generate);
  ASSERT_TRUE(recorder->done().Get().ok());
  for (const GeneratedToken& token : recorder->items()) {
    whole += token.text_delta;
  }
  harness.CreateSession("steps");
  std::string text;
  size_t empty = 0;
  std::vector<int32_t> next = prompt;
  for (uint64_t i = 0; i < kTokens; ++i) {
    StepRequest step = StepOf("steps", next);
    step.outputs = {};
    step.outputs.sampling = generate.sampling;
    step.outputs.text = true;
    const auto result = harness.Step(step);
    ASSERT_TRUE(result.ok()) << result.status();
    next = {*result->sampled_token};
    text += result->text_delta;
    if (result->text_delta.empty()) ++empty;
  }
  EXPECT_EQ(text, whole);
  EXPECT_GT(empty, 10u);
  EXPECT_LT(empty, kTokens - 10);
}

TEST(EngineStepsTest, OfOneSessionKeepTheirOrder) {
  const auto receiver = std::make_shared<NotingReceiver>();
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  std::vector<StepSubmission> steps;
  for (uint64_t i = 0; i < 10; ++i) {
    steps.push_back(SubmissionOf(session, 1, receiver, i));
  }
  Submit(harness, steps);
  std::string expected;
  for (int i = 0; i < 10; ++i) expected += "s|";
  EXPECT_EQ(receiver->Await(10), expected);
  for (uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(receiver->answer(i)->position, i + 1);
  }
}

TEST(EngineStepsTest, RefusalsAreReturnedAndHoldNobodyUp) {
  const auto receiver = std::make_shared<NotingReceiver>();
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  std::vector<StepSubmission> steps;
  steps.push_back(SubmissionOf(session, -1, receiver, 0));
  steps.push_back(SubmissionOf("none", 1, receiver, 1));
  steps.push_back(SubmissionOf(session, 1, receiver, 2));
  Submit(harness, steps);
  EXPECT_EQ(ReasonOf(steps[0].refusal), ErrorReason::kTokenOutOfRange);
  EXPECT_EQ(ReasonOf(steps[1].refusal), ErrorReason::kSessionNotFound);
  EXPECT_TRUE(steps[2].refusal.ok());
  EXPECT_EQ(receiver->Await(1), "s|");
  EXPECT_EQ(receiver->answer(2)->position, 1u);
}

TEST(EngineStepsTest, AStepShowsNothingOfTheOneBefore) {
  const auto receiver = std::make_shared<NotingReceiver>();
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  StepSubmission step = SubmissionOf(session, 1, receiver, 0);
  step.request.outputs.hidden = true;
  step.request.outputs.top_logprobs = 3;
  step.request.outputs.sampling.emplace();
  harness.engine().Submit(std::span(&step, 1));
  receiver->Await(1);
  EXPECT_EQ(receiver->answer(0)->top_logprobs.size(), 3u);
  EXPECT_TRUE(receiver->answer(0)->sampled_token.has_value());

  step = SubmissionOf(session, 1, receiver, 1);
  step.request.expected_position = 9;
  harness.engine().Submit(std::span(&step, 1));
  receiver->Await(2);
  EXPECT_EQ(ReasonOf(receiver->answer(1).status()),
            ErrorReason::kPositionMismatch);

  step = SubmissionOf(session, 1, receiver, 2);
  step.request.outputs = {};
  harness.engine().Submit(std::span(&step, 1));
  receiver->Await(3);
  ASSERT_TRUE(receiver->answer(2).ok());
  EXPECT_EQ(receiver->answer(2)->position, 2u);
  EXPECT_FALSE(receiver->answer(2)->sampled_token.has_value());
  EXPECT_FALSE(receiver->answer(2)->sampled_logprob.has_value());
  EXPECT_TRUE(receiver->answer(2)->top_logprobs.empty());
  EXPECT_TRUE(receiver->answer(2)->logits.empty());
  EXPECT_TRUE(receiver->answer(2)->hidden.empty());
}

TEST(EngineStepsTest, AReceiverIsSharedUntilTheRoundHasEnded) {
  auto receiver = std::make_shared<NotingReceiver>();
  const std::weak_ptr<NotingReceiver> weak = receiver;
  EngineHarness harness;
  const std::string session = harness.CreateSession();
  std::vector<StepSubmission> steps;
  steps.push_back(SubmissionOf(session, 1, receiver, 0));
  steps.push_back(SubmissionOf(session, -1, receiver, 1));
  steps.push_back(SubmissionOf("none", 1, receiver, 2));
  {
    ComputeHold hold(harness);
    Submit(harness, steps);
    // Refused or not, the engine has taken what the submissions had.
    for (const StepSubmission& step : steps) {
      EXPECT_EQ(step.receiver, nullptr);
    }
    EXPECT_EQ(weak.use_count(), 2);
  }
  EXPECT_EQ(receiver->Await(1), "s|");
  EXPECT_TRUE(harness.engine().WaitIdle(absl::Minutes(1)));
  receiver.reset();
  EXPECT_TRUE(weak.expired());
}

TEST(EngineStepsTest, OneThatNobodyElseHoldsIsStillCalled) {
  struct Last final : Receiver<StepRequest> {
    explicit Last(Future<bool> ended_round) : ended(std::move(ended_round)) {}
    void OnAnswers(std::span<const Answer<StepRequest>> answers) override {
      EXPECT_TRUE(answers.front().end->ok());
    }
    void OnRoundEnd() override { ended.Set(true); }
    const Future<bool> ended;
  };
  EngineHarness harness;
  const Future<bool> ended;
  ASSERT_TRUE(harness.engine()
                  .Submit(StepOf(harness.CreateSession(), {1}),
                          std::make_shared<Last>(ended))
                  .ok());
  EXPECT_TRUE(ended.Get());
}

TEST(EngineStepsTest, WhatIsRefusedWhenItsTurnComesEndsARoundToo) {
  const auto receiver = std::make_shared<NotingReceiver>();
  EngineHarness harness;
  StepSubmission step = SubmissionOf(harness.CreateSession(), 1, receiver, 7);
  step.request.expected_position = 9;
  harness.engine().Submit(std::span(&step, 1));
  EXPECT_EQ(receiver->Await(1), "s|");
  EXPECT_EQ(ReasonOf(receiver->answer(7).status()),
            ErrorReason::kPositionMismatch);
}

}  // namespace
}  // namespace steadystate::engine_steps_test
