// Goal: generation draws, absorbs, returns and ends as the contract says.
#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"
#include "tests/testing/relative_rms.h"

namespace steadystate::engine_generate_test {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

// Lets only lower-case letters be drawn, so that text is plain.
void OnlyLetters(SamplingParams& sampling) {
  for (int32_t letter = 'a'; letter <= 'z'; ++letter) {
    sampling.logit_bias.emplace_back(letter, 100.0f);
  }
}

void Only(int32_t token, SamplingParams& sampling) {
  sampling.logit_bias = {{token, 100.0f}};
}

std::vector<int32_t> TokensOf(Recorder<GenerateRequest>& sink) {
  std::vector<int32_t> tokens;
  for (const GeneratedToken& item : sink.items()) tokens.push_back(item.token);
  return tokens;
}

// All the text of a generation that has ended well.
std::string TextOf(Recorder<GenerateRequest>& sink) {
  std::string text;
  for (const GeneratedToken& item : sink.items()) text += item.text_delta;
  return text + sink.done().Get()->text_tail;
}

class EngineGenerateTest : public testing::Test {
 protected:
  GenerateSummary Finished(Recorder<GenerateRequest>& sink) {
    const auto& summary = sink.done().Get();
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.ok() ? *summary : GenerateSummary();
  }

  const std::vector<int32_t> prompt_ = MakeTokens(10, 1);
  EngineHarness harness_;
};

TEST_F(EngineGenerateTest, EqualsGreedyStepsAndScore) {
  constexpr uint64_t kTokens = 12;
  harness_.CreateSession("generate");
  GenerateRequest request = GenerateOf("generate", prompt_, kTokens);
  request.logprobs = 3;
  const auto sink = harness_.Generate(request);
  Finished(*sink);
  const std::vector<GeneratedToken> items = sink->items();
  ASSERT_EQ(items.size(), kTokens);

  harness_.CreateSession("step");
  StepRequest step = StepOf("step", prompt_);
  step.outputs.sampling = request.sampling;
  step.outputs.top_logprobs = 3;
  std::vector<int32_t> all = prompt_;
  std::vector<std::vector<float>> step_logits;
  for (const GeneratedToken& item : items) {
    const auto result = harness_.Step(step);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->sampled_token, item.token);
    EXPECT_EQ(result->sampled_logprob, item.logprob);
    ASSERT_EQ(result->top_logprobs.size(), item.top_logprobs.size());
    for (size_t i = 0; i < item.top_logprobs.size(); ++i) {
      EXPECT_EQ(result->top_logprobs[i].token, item.top_logprobs[i].token);
      EXPECT_EQ(result->top_logprobs[i].logprob, item.top_logprobs[i].logprob);
    }
    EXPECT_EQ(result->position + 1, item.position);
    step.tokens = {item.token};
    step_logits.push_back(result->logits);
    all.push_back(item.token);
  }

  ScoreRequest score = ScoreOf("", all);
  score.logits = true;
  const auto scored = harness_.Score(score);
  ASSERT_TRUE(scored->done().Get().ok());
  const auto scores = scored->items();
  ASSERT_EQ(scores.size(), all.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t row = prompt_.size() + i;
    EXPECT_LE(RelativeRms(scores[row - 1].logits, step_logits[i]), kCutsAgree);
    EXPECT_NEAR(*scores[row].logprob, *items[i].logprob, 1e-4f);
  }
}

TEST_F(EngineGenerateTest, EveryReturnedTokenHasBeenAbsorbed) {
  harness_.CreateSession("s");
  const auto sink = harness_.Generate(GenerateOf("s", prompt_, 5));
  const GenerateSummary summary = Finished(*sink);
  EXPECT_EQ(summary.finish_reason, FinishReason::kLength);
  EXPECT_EQ(summary.prompt_tokens, 10u);
  EXPECT_EQ(summary.generated_tokens, 5u);
  EXPECT_EQ(summary.position, 15u);
  EXPECT_EQ(harness_.Position("s"), 15u);
  uint64_t position = 10;
  for (const GeneratedToken& item : sink->items()) {
    EXPECT_EQ(item.position, ++position);
  }

  // The state is that of having absorbed them: the next step proves it.
  harness_.CreateSession("t");
  ASSERT_TRUE(harness_.Step(StepOf("t", prompt_)).ok());
  for (const int32_t token : TokensOf(*sink)) {
    ASSERT_TRUE(harness_.Step(StepOf("t", {token})).ok());
  }
  EXPECT_EQ(harness_.Step(StepOf("s", {9}))->logits,
            harness_.Step(StepOf("t", {9}))->logits);
}

TEST_F(EngineGenerateTest, AnEmptyPromptGoesOnAsIfThereHadBeenNoBreak) {
  harness_.CreateSession("whole");
  GenerateRequest request = GenerateOf("whole", prompt_, 12);
  request.sampling.temperature = 0.9;
  request.sampling.repetition_penalty = 1.3;
  request.sampling.seed = 5;
  const auto whole = harness_.Generate(request);
  Finished(*whole);

  request.session = harness_.CreateSession("parts");
  std::vector<int32_t> tokens;
  std::string text;
  for (const uint64_t count : {1u, 4u, 7u}) {
    request.max_tokens = count;
    const auto part = harness_.Generate(request);
    EXPECT_EQ(Finished(*part).prompt_tokens, request.prompt.size());
    for (const int32_t token : TokensOf(*part)) tokens.push_back(token);
    text += TextOf(*part);
    request.prompt.clear();
  }
  EXPECT_THAT(tokens, ElementsAreArray(TokensOf(*whole)));
  EXPECT_EQ(text, TextOf(*whole));
  EXPECT_EQ(harness_.Position("parts"), harness_.Position("whole"));
}

TEST_F(EngineGenerateTest, AnEmptyPromptNeedsSomethingPending) {
  harness_.CreateSession("s");
  for (const uint64_t max_tokens : {0u, 3u}) {
    const auto sink = harness_.Generate(GenerateOf("s", {}, max_tokens));
    EXPECT_EQ(ReasonOf(sink->done().Get().status()),
              ErrorReason::kNoPendingLogits);
  }
  EXPECT_EQ(harness_.Position("s"), 0u);
}

TEST_F(EngineGenerateTest, NoTokensMeansThePromptIsAbsorbed) {
  harness_.CreateSession("s");
  const auto sink = harness_.Generate(GenerateOf("s", prompt_, 0));
  const GenerateSummary summary = Finished(*sink);
  EXPECT_EQ(summary.finish_reason, FinishReason::kLength);
  EXPECT_EQ(summary.position, 10u);
  EXPECT_THAT(sink->items(), IsEmpty());
  EXPECT_EQ(harness_.Position("s"), 10u);
  // Nothing at all to do is done at once.
  const auto nothing = harness_.Generate(GenerateOf("s", {}, 0));
  EXPECT_EQ(Finished(*nothing).position, 10u);
}

TEST_F(EngineGenerateTest, ASeedDecidesWhateverTheSession) {
  GenerateRequest request = GenerateOf("", prompt_, 20);
  request.sampling.temperature = 1;
  std::vector<std::vector<int32_t>> runs;
  for (const uint64_t seed : {11u, 11u, 12u}) {
    request.session = harness_.CreateSession();
    request.sampling.seed = seed;
    const auto sink = harness_.Generate(request);
    Finished(*sink);
    runs.push_back(TokensOf(*sink));
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_NE(runs[0], runs[2]);
}

TEST_F(EngineGenerateTest, AStopTokenIsReturnedAbsorbedAndSilent) {
  GenerateRequest request = GenerateOf(harness_.CreateSession(), prompt_, 12);
  OnlyLetters(request.sampling);
  const auto whole = harness_.Generate(request);
  Finished(*whole);
  const std::vector<int32_t> tokens = TokensOf(*whole);

  request.stop_tokens = {tokens[4]};
  const auto first = std::find(tokens.begin(), tokens.end(), tokens[4]);
  request.session = harness_.CreateSession("s");
  const auto sink = harness_.Generate(request);
  const GenerateSummary summary = Finished(*sink);
  EXPECT_EQ(summary.finish_reason, FinishReason::kStopToken);
  EXPECT_THAT(TokensOf(*sink), ElementsAreArray(tokens.begin(), first + 1));
  EXPECT_EQ(TextOf(*sink), std::string(tokens.begin(), first));
  EXPECT_EQ(harness_.Position("s"), 10 + sink->items().size());
}

TEST_F(EngineGenerateTest, TheModelsEndTokensStopUnlessIgnored) {
  TinyModelOptions options;
  options.eos_tokens = {'q'};
  EngineHarness harness({}, TinyModel(options).Load());
  GenerateRequest request = GenerateOf(harness.CreateSession(), prompt_, 6);
  Only('q', request.sampling);
  const auto stopped = harness.Generate(request);
  EXPECT_EQ(Finished(*stopped).finish_reason, FinishReason::kStopToken);
  EXPECT_THAT(TokensOf(*stopped), ElementsAre('q'));
  EXPECT_EQ(TextOf(*stopped), "");

  request.session = harness.CreateSession();
  request.ignore_eos = true;
  const auto ignored = harness.Generate(request);
  EXPECT_EQ(Finished(*ignored).finish_reason, FinishReason::kLength);
  EXPECT_EQ(TextOf(*ignored), "qqqqqq");
}

TEST_F(EngineGenerateTest, AStopStringIsCutFromTheTextButAbsorbed) {
  GenerateRequest request = GenerateOf(harness_.CreateSession(), prompt_, 20);
  request.sampling.temperature = 1;
  OnlyLetters(request.sampling);
  const auto whole = harness_.Generate(request);
  Finished(*whole);
  const std::string text = TextOf(*whole);
  ASSERT_EQ(text.size(), 20u);

  const std::string stop = text.substr(8, 3);
  const size_t found = text.find(stop);
  request.stop_strings = {"no such string", stop};
  request.session = harness_.CreateSession("s");
  const auto sink = harness_.Generate(request);
  const GenerateSummary summary = Finished(*sink);
  EXPECT_EQ(summary.finish_reason, FinishReason::kStopString);
  EXPECT_EQ(TextOf(*sink), text.substr(0, found));
  EXPECT_EQ(sink->items().size(), found + 3);
  EXPECT_EQ(harness_.Position("s"), 10 + found + 3);
}

TEST_F(EngineGenerateTest, HeldBackTextComesAtTheEnd) {
  GenerateRequest request = GenerateOf(harness_.CreateSession(), prompt_, 2);
  Only('a', request.sampling);
  request.stop_strings = {"aab"};
  const auto sink = harness_.Generate(request);
  EXPECT_EQ(Finished(*sink).finish_reason, FinishReason::kLength);
  EXPECT_EQ(TextOf(*sink), "aa");
  EXPECT_EQ(sink->done().Get()->text_tail, "aa");
}

TEST_F(EngineGenerateTest, CharactersGoOnAcrossRequests) {
  harness_.CreateSession("s");
  GenerateRequest request = GenerateOf("s", prompt_, 1);
  std::vector<std::string> texts;
  for (const int32_t byte : {0xe2, 0x82, 0xac}) {  // the euro sign
    Only(byte, request.sampling);
    const auto sink = harness_.Generate(request);
    Finished(*sink);
    texts.push_back(TextOf(*sink));
    request.prompt.clear();
  }
  EXPECT_THAT(texts, ElementsAre("", "", "\xe2\x82\xac"));
}

TEST_F(EngineGenerateTest, AnUnfinishedCharacterEndsWithTheNextInput) {
  harness_.CreateSession("s");
  GenerateRequest request = GenerateOf("s", prompt_, 1);
  Only(0xe2, request.sampling);
  Finished(*harness_.Generate(request));
  ASSERT_TRUE(harness_.Step(StepOf("s", {1})).ok());
  request.prompt.clear();
  Only('x', request.sampling);
  const auto sink = harness_.Generate(request);
  Finished(*sink);
  EXPECT_EQ(TextOf(*sink), "x");
}

TEST_F(EngineGenerateTest, ASinkThatIsNotReadyPausesOnlyItsOwnRequest) {
  harness_.CreateSession("slow");
  harness_.CreateSession("quick");
  RequestId id = 0;
  std::shared_ptr<Recorder<GenerateRequest>> sink;
  {
    ComputeHold hold(harness_);
    sink = harness_.Generate(GenerateOf("slow", prompt_, 10), &id);
    sink->set_limit(2);
  }
  sink->AwaitItems(2);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(harness_.Step(StepOf("quick", {1})).ok());
  }
  EXPECT_EQ(sink->items().size(), 2u);
  EXPECT_FALSE(sink->done().IsSet());
  EXPECT_TRUE(harness_.engine().GetSession("slow")->active);

  sink->set_limit(5);
  harness_.engine().Wake(id);
  sink->AwaitItems(5);
  sink->set_limit(SIZE_MAX);
  harness_.engine().Wake(id);
  EXPECT_EQ(Finished(*sink).generated_tokens, 10u);
  harness_.engine().Wake(id);  // finished: ignored
}

TEST_F(EngineGenerateTest, CountsAreExact) {
  harness_.CreateSession("s");
  Finished(*harness_.Generate(GenerateOf("s", prompt_, 7)));
  ASSERT_TRUE(harness_.Step(StepOf("s", MakeTokens(3, 1))).ok());
  ASSERT_TRUE(harness_.Score(ScoreOf("", MakeTokens(4, 1)))->done().Get().ok());
  const std::string tokens = "steadystate_tokens_total{";
  EXPECT_EQ(harness_.Metric({tokens, "kind=\"prompt\""}), 10 + 3 + 4);
  EXPECT_EQ(harness_.Metric({tokens, "kind=\"generated\""}), 7);
  EXPECT_EQ(harness_.Metric({"steadystate_time_to_first_token_seconds_count"}),
            1);
  EXPECT_EQ(harness_.Metric({"steadystate_inter_token_latency_seconds_count"}),
            6);
}

}  // namespace
}  // namespace steadystate::engine_generate_test
