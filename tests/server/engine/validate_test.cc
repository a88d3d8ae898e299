// Goal: every value out of range is refused before any session is looked at,
// with the field's name. Method: one bad value at a time.
#include "server/engine/validate.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/engine/engine_harness.h"

namespace steadystate::validate_test {
namespace {

EngineOptions SmallLimits() {
  EngineOptions options;
  options.max_tokens_per_request = 10;
  options.max_stop_strings = 2;
  options.max_stop_string_bytes = 4;
  options.max_stop_tokens = 2;
  return options;
}

void ExpectField(const absl::Status& status, const std::string& field,
                 ErrorReason reason = ErrorReason::kInvalidArgument) {
  EXPECT_EQ(ReasonOf(status), reason) << status;
  EXPECT_EQ(MetadataOf(status, "field"), field) << status;
}

TEST(ValidateEngineOptionsTest, ChecksEveryLimit) {
  EXPECT_TRUE(ValidateEngineOptions({}).ok());
  const std::vector<std::pair<std::string, std::function<void(EngineOptions&)>>>
      kBad = {
          {"ttl", [](auto& o) { o.session_ttl = absl::ZeroDuration(); }},
          {"--threads", [](auto& o) { o.threads = 0; }},
          {"--threads", [](auto& o) { o.threads = 100000; }},
          {"--max_batch_rows", [](auto& o) { o.max_batch_rows = 0; }},
          {"--prefill_chunk_rows", [](auto& o) { o.prefill_chunk_rows = 257; }},
          {"--prefill_slice",
           [](auto& o) { o.prefill_slice = -absl::Nanoseconds(1); }},
          {"--prefill_slice",
           [](auto& o) { o.prefill_slice = absl::Hours(1); }},
          {"--max_queued_per_session",
           [](auto& o) { o.max_queued_per_session = 0; }},
          {"max_queued_requests", [](auto& o) { o.max_queued_requests = 0; }},
          {"max_queued_input_bytes",
           [](auto& o) { o.max_queued_input_bytes = 0; }},
          {"max_tokens_per_request",
           [](auto& o) { o.max_tokens_per_request = 0; }},
          {"--max_step_tokens", [](auto& o) { o.max_step_tokens = 0; }},
          {"--max_step_tokens", [](auto& o) { o.max_step_tokens = 1 << 21; }},
      };
  for (const auto& [field, spoil] : kBad) {
    EngineOptions options;
    spoil(options);
    ExpectField(ValidateEngineOptions(options), field);
  }
}

TEST(ValidateEngineOptionsTest, KeepsStatesInMemoryWithoutAStoreOnly) {
  EngineOptions options;
  EXPECT_TRUE(ValidateEngineOptions(options, /*stores=*/true).ok());
  options.snapshots = 4;
  EXPECT_TRUE(ValidateEngineOptions(options).ok());
  ExpectField(ValidateEngineOptions(options, /*stores=*/true), "--snapshots");
}

class ValidateTest : public testing::Test {
 protected:
  absl::Status Step(const std::function<void(StepRequest&)>& spoil) {
    StepRequest request = StepOf("s", {1});
    spoil(request);
    return Validate(request, *model_, options_);
  }
  absl::Status Generate(const std::function<void(GenerateRequest&)>& spoil) {
    GenerateRequest request = GenerateOf("s", {1}, 1);
    spoil(request);
    return Validate(request, *model_, options_);
  }
  absl::Status Score(const std::function<void(ScoreRequest&)>& spoil) {
    ScoreRequest request = ScoreOf("s", {1});
    spoil(request);
    return Validate(request, *model_, options_);
  }

  const EngineOptions options_ = SmallLimits();
  const std::shared_ptr<const Model> model_ = SharedTinyModel();
};

TEST_F(ValidateTest, AcceptsWhatIsWithinBounds) {
  EXPECT_TRUE(Step([](StepRequest& r) {
                r.tokens = {0, 255};
                r.outputs.top_logprobs = kMaxTopLogprobs;
                r.outputs.sampling.emplace();
              }).ok());
  EXPECT_TRUE(Step([](StepRequest& r) {
                r.tokens.clear();
                r.embeddings.assign(32 * 10, 1.0f);
              }).ok());
  EXPECT_TRUE(Generate([](GenerateRequest& r) {
                r.prompt.clear();
                r.stop_strings = {"a", "abcd"};
                r.stop_tokens = {0, 255};
                r.logprobs = 0;
              }).ok());
  EXPECT_TRUE(
      Score([](ScoreRequest& r) { r.tokens = MakeTokens(10, 1); }).ok());
}

TEST_F(ValidateTest, ChecksSteps) {
  ExpectField(Step([](auto& r) { r.tokens.clear(); }), "tokens");
  ExpectField(Step([](auto& r) { r.embeddings.assign(32, 0.0f); }), "tokens");
  ExpectField(Step([](auto& r) { r.tokens = MakeTokens(11, 1); }), "tokens");
  ExpectField(Step([](auto& r) {
                r.tokens = {1, 2, 256};
              }),
              "tokens", ErrorReason::kTokenOutOfRange);
  ExpectField(Step([](auto& r) { r.tokens = {-1}; }), "tokens",
              ErrorReason::kTokenOutOfRange);
  const auto embeddings = [this](size_t count, float last) {
    return Step([count, last](StepRequest& r) {
      r.tokens.clear();
      r.embeddings.assign(count, 0.0f);
      r.embeddings.back() = last;
    });
  };
  ExpectField(embeddings(33, 0), "embeddings.values");
  ExpectField(embeddings(32 * 11, 0), "embeddings");
  ExpectField(embeddings(32, std::numeric_limits<float>::infinity()),
              "embeddings.values[31]");
  ExpectField(embeddings(32, std::numeric_limits<float>::quiet_NaN()),
              "embeddings.values[31]");
  ExpectField(Step([](auto& r) { r.outputs.top_logprobs = 0; }),
              "outputs.top_logprobs");
  ExpectField(
      Step([](auto& r) { r.outputs.top_logprobs = kMaxTopLogprobs + 1; }),
      "outputs.top_logprobs");
  ExpectField(
      Step([](auto& r) { r.outputs.sampling.emplace().temperature = -1; }),
      "outputs.sampling.temperature");
  ExpectField(Step([](auto& r) { r.outputs.text = true; }), "outputs.sampling");
}

TEST_F(ValidateTest, AStepThatOnlyMakesItsSessionHasNothingElse) {
  StepRequest step;
  step.session = "s";
  ExpectField(Validate(step, *model_, SmallLimits()), "tokens");
  step.ephemeral = true;
  EXPECT_TRUE(Validate(step, *model_, SmallLimits()).ok());
  for (const auto want : {+[](StepOutputs& o) { o.logits = true; },
                          +[](StepOutputs& o) { o.hidden = true; },
                          +[](StepOutputs& o) { o.text = true; },
                          +[](StepOutputs& o) { o.top_logprobs = 1; },
                          +[](StepOutputs& o) { o.sampling.emplace(); }}) {
    StepRequest wants = step;
    want(wants.outputs);
    ExpectField(Validate(wants, *model_, SmallLimits()), "tokens");
  }
}

TEST_F(ValidateTest, AStepIsShorterThanAPrompt) {
  EngineOptions options = SmallLimits();
  options.max_step_tokens = 4;
  StepRequest step = StepOf("s", MakeTokens(4, 1));
  EXPECT_TRUE(Validate(step, *model_, options).ok());
  step.tokens.push_back(1);
  const absl::Status refused = Validate(step, *model_, options);
  ExpectField(refused, "tokens");
  for (const char* part :
       {"5", "4", "--max_step_tokens", "Generate", "max_tokens 0"}) {
    EXPECT_NE(refused.message().find(part), absl::string_view::npos) << refused;
  }
  step.tokens.clear();
  step.embeddings.assign(32 * 4, 0.0f);
  EXPECT_TRUE(Validate(step, *model_, options).ok());
  step.embeddings.resize(32 * 5);
  ExpectField(Validate(step, *model_, options), "embeddings");
  EXPECT_TRUE(
      Validate(GenerateOf("s", MakeTokens(10, 1), 0), *model_, options).ok());
}

TEST_F(ValidateTest, ChecksGenerations) {
  ExpectField(Generate([](auto& r) { r.prompt = MakeTokens(11, 1); }),
              "prompt");
  ExpectField(Generate([](auto& r) { r.prompt = {256}; }), "prompt",
              ErrorReason::kTokenOutOfRange);
  ExpectField(Generate([](auto& r) {
                r.stop_tokens = {1, 2, 3};
              }),
              "stop_tokens");
  ExpectField(Generate([](auto& r) { r.stop_tokens = {-5}; }), "stop_tokens",
              ErrorReason::kTokenOutOfRange);
  ExpectField(Generate([](auto& r) {
                r.stop_strings = {"a", "b", "c"};
              }),
              "stop_strings");
  ExpectField(Generate([](auto& r) {
                r.stop_strings = {"a", ""};
              }),
              "stop_strings[1]");
  ExpectField(Generate([](auto& r) { r.stop_strings = {"abcde"}; }),
              "stop_strings[0]");
  ExpectField(Generate([](auto& r) { r.logprobs = kMaxTopLogprobs + 1; }),
              "logprobs");
  ExpectField(Generate([](auto& r) { r.sampling.top_p = 0; }),
              "sampling.top_p");
}

TEST_F(ValidateTest, ChecksScores) {
  ExpectField(Score([](auto& r) { r.tokens.clear(); }), "tokens");
  ExpectField(Score([](auto& r) { r.tokens = MakeTokens(11, 1); }), "tokens");
  ExpectField(Score([](auto& r) {
                r.tokens = {1, 999};
              }),
              "tokens", ErrorReason::kTokenOutOfRange);
  ExpectField(Score([](auto& r) { r.top_logprobs = kMaxTopLogprobs + 1; }),
              "top_logprobs");
  ExpectField(Score([](auto& r) { r.top_logprobs = 0; }), "top_logprobs");
  ExpectField(Score([](auto& r) {
                r.session.clear();
                r.expected_position = 0;
              }),
              "expected_position");
}

TEST_F(ValidateTest, ATokenOutOfRangeIsNamedByItsIndex) {
  const absl::Status refused = Step([](auto& r) { r.tokens = {1, 2, 256}; });
  EXPECT_EQ(MetadataOf(refused, "index"), "2");
  EXPECT_EQ(MetadataOf(refused, "token"), "256");
  EXPECT_EQ(MetadataOf(refused, "vocab_size"), "256");
}

struct BadSampling {
  const char* field;
  void (*spoil)(SamplingParams& params);
};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

constexpr BadSampling kBadSampling[] = {
    {"logit_bias[0]",
     [](SamplingParams& p) {
       p.logit_bias = {{0, 100.5f}};
     }},
    {"logit_bias[0]",
     [](SamplingParams& p) {
       p.logit_bias = {{0, std::nanf("")}};
     }},
    {"logit_bias[1]",
     [](SamplingParams& p) {
       p.logit_bias = {{1, 0}, {1, 1}};
     }},
    {"logit_bias", [](SamplingParams& p) { p.logit_bias.resize(1025); }},
    {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = 0; }},
    {"repetition_penalty",
     [](SamplingParams& p) { p.repetition_penalty = kNan; }},
    {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = -2.1; }},
    {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = 2.1; }},
    {"penalty_window", [](SamplingParams& p) { p.penalty_window = 257; }},
    {"temperature", [](SamplingParams& p) { p.temperature = -0.1; }},
    {"temperature", [](SamplingParams& p) { p.temperature = kNan; }},
    {"top_k", [](SamplingParams& p) { p.top_k = 0; }},
    {"top_p", [](SamplingParams& p) { p.top_p = 0; }},
    {"top_p", [](SamplingParams& p) { p.top_p = 1.5; }},
    {"min_p", [](SamplingParams& p) { p.min_p = -1; }},
    {"min_p", [](SamplingParams& p) { p.min_p = 1.1; }},
};

TEST(ValidateSamplingTest, WhatIsOutOfRangeIsNamed) {
  EXPECT_TRUE(ValidateSampling({}, 10).ok());
  for (const BadSampling& bad : kBadSampling) {
    SamplingParams params;
    bad.spoil(params);
    const absl::Status status = ValidateSampling(params, 10);
    ExpectField(status, bad.field);
    EXPECT_EQ(status.message().find(bad.field), 0u) << status;
  }
}

TEST(ValidateSamplingTest, ABiasOfNoTokenIsTokenOutOfRange) {
  for (const int32_t token : {-1, 10}) {
    SamplingParams params;
    params.logit_bias = {{token, 1.0f}};
    ExpectField(ValidateSampling(params, 10), "logit_bias",
                ErrorReason::kTokenOutOfRange);
  }
}

TEST_F(ValidateTest, RefusedRequestsAreAnsweredAtOnceAndChangeNothing) {
  EngineHarness harness(options_);
  harness.CreateSession("s");
  const StepFuture step = harness.StepAsync(StepOf("s", {256}));
  const auto generate = harness.Generate(GenerateOf("s", {256}, 1));
  const auto score = harness.Score(ScoreOf("s", {256}));
  ASSERT_TRUE(step.IsSet());
  ASSERT_TRUE(generate->done().IsSet());
  ASSERT_TRUE(score->done().IsSet());
  EXPECT_FALSE(step.Get().ok());
  EXPECT_FALSE(generate->done().Get().ok());
  EXPECT_FALSE(score->done().Get().ok());
  EXPECT_EQ(harness.Position("s"), 0u);
}

}  // namespace
}  // namespace steadystate::validate_test
