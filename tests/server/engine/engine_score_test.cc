// Goal: scores are the model's own log-probabilities, in bounded pieces.
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/score_task.h"
#include "server/model/sampler.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/relative_rms.h"

namespace steadystate::engine_score_test {
namespace {

class EngineScoreTest : public testing::Test {
 protected:
  EngineScoreTest() : harness_(Options()) {}

  static EngineOptions Options() {
    EngineOptions options;
    options.prefill_chunk_rows = 8;
    return options;
  }

  // The logits after each token, from single steps.
  std::vector<std::vector<float>> StepLogits(const std::string& session,
                                             std::vector<int32_t> tokens) {
    std::vector<std::vector<float>> logits;
    for (const int32_t token : tokens) {
      logits.push_back(harness_.Step(StepOf(session, {token}))->logits);
    }
    return logits;
  }

  const std::vector<int32_t> tokens_ = MakeTokens(21, 4);
  EngineHarness harness_;
};

TEST_F(EngineScoreTest, AFreshStateScoresAllButTheFirst) {
  const auto logits = StepLogits(harness_.CreateSession(), tokens_);
  ScoreRequest request = ScoreOf("", tokens_);
  request.top_logprobs = 2;
  request.logits = true;
  const auto sink = harness_.Score(request);
  const auto& summary = sink->done().Get();
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto items = sink->items();
  ASSERT_EQ(items.size(), tokens_.size());
  double total = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].token, tokens_[i]);
    EXPECT_EQ(items[i].position, i + 1);
    EXPECT_LE(RelativeRms(items[i].logits, logits[i]), kCutsAgree);
    ASSERT_EQ(items[i].logprob.has_value(), i > 0);
    if (i == 0) continue;
    EXPECT_EQ(*items[i].logprob,
              Sampler::Logprob(items[i - 1].logits, tokens_[i]));
    EXPECT_EQ(items[i].top_logprobs.size(), 2u);
    EXPECT_GE(items[i].top_logprobs[0].logprob, *items[i].logprob);
    total += double{*items[i].logprob};
  }
  EXPECT_EQ(summary->tokens, 21u);
  EXPECT_EQ(summary->scored_tokens, 20u);
  EXPECT_EQ(summary->position, 21u);
  EXPECT_EQ(summary->total_logprob, total);
}

TEST_F(EngineScoreTest, ASessionIsAdvancedAndScoresTheFirstToo) {
  harness_.CreateSession("a");
  harness_.CreateSession("b");
  StepLogits("a", {7, 8});
  const auto before = StepLogits("b", {7, 8}).back();
  const auto sink = harness_.Score(ScoreOf("a", tokens_));
  const auto& summary = sink->done().Get();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->scored_tokens, tokens_.size());
  EXPECT_EQ(summary->position, 2 + tokens_.size());
  EXPECT_EQ(*sink->items()[0].logprob, Sampler::Logprob(before, tokens_[0]));
  EXPECT_TRUE(sink->items()[0].logits.empty());
  EXPECT_EQ(harness_.Position("a"), 2 + tokens_.size());
  // And its state is that of having absorbed them.
  ASSERT_TRUE(harness_.Step(StepOf("b", tokens_)).ok());
  EXPECT_EQ(harness_.Step(StepOf("a", {1}))->logits,
            harness_.Step(StepOf("b", {1}))->logits);
}

TEST_F(EngineScoreTest, OneTokenOnAFreshStateHasNoScore) {
  const auto sink = harness_.Score(ScoreOf("", {5}));
  const auto& summary = sink->done().Get();
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->tokens, 1u);
  EXPECT_EQ(summary->scored_tokens, 0u);
  EXPECT_EQ(summary->total_logprob, 0);
}

TEST_F(EngineScoreTest, WaitsForItsReceiverBeforeEachPiece) {
  RequestId id = 0;
  std::shared_ptr<Recorder<ScoreRequest>> sink;
  {
    ComputeHold hold(harness_);
    sink = harness_.Score(ScoreOf("", tokens_), &id);
    sink->set_limit(1);
  }
  sink->AwaitItems(8);
  ASSERT_TRUE(harness_.Step(StepOf(harness_.CreateSession(), {1})).ok());
  EXPECT_EQ(sink->items().size(), 8u);  // one piece, not two
  sink->set_limit(SIZE_MAX);
  harness_.engine().Wake(id);
  EXPECT_EQ(sink->done().Get()->tokens, tokens_.size());
}

TEST_F(EngineScoreTest, AFreshStateComesFromTheBudgetAndGoesBack) {
  EngineOptions options = Options();
  options.state_memory_bytes =
      harness_.engine().GetSession(harness_.CreateSession())->state_bytes;
  EngineHarness harness(options);
  for (int i = 0; i < 3; ++i) {
    const auto sink = harness.Score(ScoreOf("", tokens_));
    ASSERT_TRUE(sink->done().Get().ok()) << sink->done().Get().status();
  }
  const std::string session = harness.CreateSession();
  const auto refused = harness.Score(ScoreOf("", tokens_));
  EXPECT_EQ(ReasonOf(refused->done().Get().status()),
            ErrorReason::kStateBudgetExhausted);
  const auto on_session = harness.Score(ScoreOf(session, tokens_));
  EXPECT_TRUE(on_session->done().Get().ok());
}

size_t RowsOfAPiece(size_t vocab_size) {
  ScoreTask task(vocab_size, 64);
  Submission<ScoreRequest> submission = {
      .request = ScoreOf("", MakeTokens(100, 1)),
      .receiver = std::make_shared<Recorder<ScoreRequest>>(),
      .refusal = {}};
  task.Take(submission);
  return task.Next().rows;
}

TEST(ScoreTaskTest, PiecesBoundTheMemoryOfLogits) {
  constexpr size_t kVocab = 100'000;
  EXPECT_EQ(RowsOfAPiece(kVocab), 2u);
  EXPECT_LE(2 * kVocab * sizeof(float), kMaxAnsweredBytes);
  EXPECT_EQ(RowsOfAPiece(1'000'000), 1u);
  EXPECT_EQ(RowsOfAPiece(10), 64u);
}

}  // namespace
}  // namespace steadystate::engine_score_test
