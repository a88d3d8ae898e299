// Goal: every bound that the protos state is checked, presence is told from
// zero, and errors name the field. Method: one table of requests and fields.
#include "server/rpc/convert.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/rpc/answer.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/tiny_model.h"

namespace steadystate::convert_test {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

grpc::Status Wire(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return ToGrpcStatus(ToPublicError(status));
}

class ConvertTest : public testing::Test {
 protected:
  static std::shared_ptr<const Model> LoadModel(bool tokenizer) {
    TinyModelOptions options;
    options.byte_tokenizer = tokenizer;
    return TinyModel(options).Load();
  }
  static constexpr size_t kMessageBytes = 64 << 10;

  v1::StepRequest step_ = [] {
    v1::StepRequest step;
    step.set_session("sessions/a");
    step.mutable_tokens()->add_ids(1);
    return step;
  }();
  v1::GenerateRequest generate_ = [] {
    v1::GenerateRequest generate;
    generate.set_session("sessions/a");
    return generate;
  }();

  const std::shared_ptr<const Model> model_ = LoadModel(true);
  const Converter converter_{*model_, EngineOptions{}, kMessageBytes};
};

using SamplingEdit = std::function<void(v1::Sampling&)>;

struct SamplingCase {
  std::string field;
  SamplingEdit edit;
};

TEST_F(ConvertTest, SamplingOutsideItsBoundsIsRefusedByName) {
  const std::vector<SamplingCase> cases = {
      {"temperature", [](auto& s) { s.set_temperature(-0.1); }},
      {"temperature", [](auto& s) { s.set_temperature(100.1); }},
      {"temperature", [](auto& s) { s.set_temperature(kNan); }},
      {"top_k", [](auto& s) { s.set_top_k(0); }},
      {"top_p", [](auto& s) { s.set_top_p(0); }},
      {"top_p", [](auto& s) { s.set_top_p(1.01); }},
      {"top_p", [](auto& s) { s.set_top_p(kNan); }},
      {"min_p", [](auto& s) { s.set_min_p(-0.1); }},
      {"min_p", [](auto& s) { s.set_min_p(1.1); }},
      {"min_p", [](auto& s) { s.set_min_p(kNan); }},
      {"repetition_penalty", [](auto& s) { s.set_repetition_penalty(0); }},
      {"repetition_penalty", [](auto& s) { s.set_repetition_penalty(10.1); }},
      {"repetition_penalty", [](auto& s) { s.set_repetition_penalty(kNan); }},
      {"presence_penalty", [](auto& s) { s.set_presence_penalty(2.1); }},
      {"presence_penalty", [](auto& s) { s.set_presence_penalty(-2.1); }},
      {"presence_penalty", [](auto& s) { s.set_presence_penalty(kNan); }},
      {"frequency_penalty", [](auto& s) { s.set_frequency_penalty(-3); }},
      {"frequency_penalty", [](auto& s) { s.set_frequency_penalty(kNan); }},
      {"penalty_window", [](auto& s) { s.set_penalty_window(257); }},
      {"logit_bias[3]", [](auto& s) { (*s.mutable_logit_bias())[3] = 100.5f; }},
      {"logit_bias[3]",
       [](auto& s) {
         (*s.mutable_logit_bias())[3] = std::numeric_limits<float>::quiet_NaN();
       }},
  };
  for (const SamplingCase& c : cases) {
    v1::StepRequest step = step_;
    c.edit(*step.mutable_output()->mutable_sample());
    EXPECT_THAT(Wire(converter_.ToStepRequest(step).status()),
                IsAboutField("output.sample." + c.field));
    v1::GenerateRequest generate = generate_;
    c.edit(*generate.mutable_sampling());
    EXPECT_THAT(Wire(converter_.ToGenerateRequest(generate).status()),
                IsAboutField("sampling." + c.field));
  }
}

TEST_F(ConvertTest, SamplingAtItsBoundsIsAccepted) {
  const std::vector<SamplingEdit> edits = {
      [](auto& s) { s.set_temperature(0); },
      [](auto& s) { s.set_temperature(100); },
      [](auto& s) { s.set_top_k(1); },
      [](auto& s) { s.set_top_p(1); },
      [](auto& s) { s.set_min_p(0); },
      [](auto& s) { s.set_min_p(1); },
      [](auto& s) { s.set_repetition_penalty(10); },
      [](auto& s) { s.set_presence_penalty(-2); },
      [](auto& s) { s.set_frequency_penalty(2); },
      [](auto& s) { s.set_penalty_window(0); },
      [](auto& s) { s.set_penalty_window(256); },
      [](auto& s) { (*s.mutable_logit_bias())[0] = -100; },
  };
  for (const SamplingEdit& edit : edits) {
    v1::StepRequest step = step_;
    edit(*step.mutable_output()->mutable_sample());
    EXPECT_THAT(Wire(converter_.ToStepRequest(step).status()), IsOk());
  }
}

TEST_F(ConvertTest, AbsentIsNotZero) {
  const auto absent = converter_.ToStepRequest(step_);
  ASSERT_TRUE(absent.ok());
  EXPECT_FALSE(absent->expected_position.has_value());
  EXPECT_FALSE(absent->outputs.sampling.has_value());
  EXPECT_FALSE(absent->outputs.top_logprobs.has_value());

  v1::StepRequest step = step_;
  step.set_expected_position(0);
  step.mutable_output()->mutable_sample()->set_temperature(0);
  const auto zero = converter_.ToStepRequest(step);
  ASSERT_TRUE(zero.ok());
  EXPECT_EQ(zero->expected_position, 0u);
  ASSERT_TRUE(zero->outputs.sampling.has_value());
  EXPECT_EQ(zero->outputs.sampling->temperature, 0.0);
  EXPECT_EQ(zero->outputs.sampling->top_p, 1.0);
  EXPECT_EQ(zero->outputs.sampling->penalty_window, 64u);
  EXPECT_FALSE(zero->outputs.sampling->top_k.has_value());

  step.mutable_output()->set_top_logprobs(0);
  EXPECT_THAT(Wire(converter_.ToStepRequest(step).status()),
              IsAboutField("output.top_logprobs"));

  const auto unbounded = converter_.ToGenerateRequest(generate_);
  ASSERT_TRUE(unbounded.ok());
  EXPECT_FALSE(unbounded->max_tokens.has_value());
  EXPECT_FALSE(unbounded->logprobs.has_value());
  v1::GenerateRequest none = generate_;
  none.set_max_tokens(0);
  none.set_logprobs(0);
  const auto bounded = converter_.ToGenerateRequest(none);
  ASSERT_TRUE(bounded.ok());
  EXPECT_EQ(bounded->max_tokens, 0u);
  EXPECT_EQ(bounded->logprobs, 0u);
}

TEST_F(ConvertTest, GenerateDrawsAFreshSeedOnlyWhereThereIsNone) {
  const auto first = converter_.ToGenerateRequest(generate_);
  const auto second = converter_.ToGenerateRequest(generate_);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->sampling.seed, second->sampling.seed);
  generate_.mutable_sampling()->set_seed(0);
  const auto given = converter_.ToGenerateRequest(generate_);
  ASSERT_TRUE(given.ok());
  EXPECT_EQ(given->sampling.seed, 0u);
}

TEST_F(ConvertTest, SessionNamesAreCheckedToTheLetter) {
  const std::vector<std::string> bad = {
      "",
      "a",
      "sessions/",
      "sessions/-a",
      "sessions/A",
      "sessions/a/b",
      "sessions/../a",
      "sessions/a%2e",
      std::string("sessions/a\0b", 12),
      "sessions/\xC3\xA4",
      "models/a",
      "sessions/" + std::string(64, 'a'),
      "sessions/" + std::string(100'000, 'a')};
  for (const std::string& name : bad) {
    step_.set_session(name);
    EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
                IsAboutField("session"));
  }
  for (const std::string& name :
       {std::string("sessions/a"), std::string("sessions/0-9"),
        "sessions/" + std::string(63, 'a')}) {
    step_.set_session(name);
    EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()), IsOk());
  }
}

TEST_F(ConvertTest, StepNeedsInput) {
  step_.clear_tokens();
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              IsAboutField("input"));
  step_.mutable_tokens();
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              IsAboutField("tokens.ids"));
  step_.mutable_embeddings();
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              IsAboutField("embeddings.values"));
}

TEST_F(ConvertTest, TokensOutsideTheVocabularyAreNamedByIndex) {
  for (const int32_t token : {-1, 256, std::numeric_limits<int32_t>::min(),
                              std::numeric_limits<int32_t>::max()}) {
    v1::StepRequest step = step_;
    step.mutable_tokens()->add_ids(token);
    const grpc::Status status = Wire(converter_.ToStepRequest(step).status());
    EXPECT_THAT(status, HasReason(ErrorReason::kTokenOutOfRange));
    auto metadata = ToWireError(status).metadata;
    EXPECT_EQ(metadata["field"], "tokens.ids");
    EXPECT_EQ(metadata["index"], "1");
    EXPECT_EQ(metadata["token"], std::to_string(token));
    EXPECT_EQ(metadata["vocab_size"], "256");
  }
  generate_.add_stop_tokens(300);
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(generate_).status()),
              HasReason(ErrorReason::kTokenOutOfRange));
  (*step_.mutable_output()->mutable_sample()->mutable_logit_bias())[-5] = 1;
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              HasReason(ErrorReason::kTokenOutOfRange));
}

TEST_F(ConvertTest, EmbeddingsAreWholeVectorsOfFiniteNumbers) {
  auto& values = *step_.mutable_embeddings()->mutable_values();
  values.Resize(31, 0.5f);
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              IsAboutField("embeddings.values"));
  values.Resize(64, 0.5f);
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()), IsOk());
  for (const float bad : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    values.Set(33, bad);
    EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
                IsAboutField("embeddings.values[33]"));
  }
}

TEST_F(ConvertTest, StopsAreBounded) {
  v1::GenerateRequest request = generate_;
  for (int i = 0; i < 17; ++i) request.add_stop("x");
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(request).status()),
              IsAboutField("stop"));
  request.mutable_stop()->DeleteSubrange(1, 16);
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(request).status()), IsOk());
  request.add_stop("");
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(request).status()),
              IsAboutField("stop[1]"));
  request.set_stop(1, std::string(257, 'x'));
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(request).status()),
              IsAboutField("stop[1]"));
  request = generate_;
  request.mutable_stop_tokens()->Resize(257, 1);
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(request).status()),
              IsAboutField("stop_tokens"));
  request = generate_;
  request.set_logprobs(257);
  EXPECT_THAT(Wire(converter_.ToGenerateRequest(request).status()),
              IsAboutField("logprobs"));
}

TEST_F(ConvertTest, TextAndStopStringsNeedATokenizer) {
  const std::shared_ptr<const Model> mute = LoadModel(false);
  const Converter converter(*mute, EngineOptions{}, kMessageBytes);
  generate_.set_text("a");
  EXPECT_THAT(Wire(converter.ToGenerateRequest(generate_).status()),
              HasReason(ErrorReason::kTokenizerUnavailable));
  generate_.clear_text();
  generate_.add_stop("a");
  EXPECT_THAT(Wire(converter.ToGenerateRequest(generate_).status()),
              HasReason(ErrorReason::kTokenizerUnavailable));
  v1::ScoreRequest score;
  score.set_text("a");
  EXPECT_THAT(Wire(converter.ToScoreRequest(score).status()),
              HasReason(ErrorReason::kTokenizerUnavailable));
  step_.mutable_output()->mutable_sample();
  step_.mutable_output()->set_text(true);
  EXPECT_THAT(Wire(converter.ToStepRequest(step_).status()),
              HasReason(ErrorReason::kTokenizerUnavailable));
  step_.clear_output();
  step_.set_text("a");
  EXPECT_THAT(Wire(converter.ToStepRequest(step_).status()),
              HasReason(ErrorReason::kTokenizerUnavailable));
}

TEST_F(ConvertTest, TextOfAStepIsShort) {
  step_.set_text(std::string(kShortTextBytes, 'a'));
  const auto converted = converter_.ToStepRequest(step_);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_EQ(converted->tokens, std::vector<int32_t>(kShortTextBytes, 'a'));
  step_.mutable_text()->push_back('a');
  const grpc::Status refused = Wire(converter_.ToStepRequest(step_).status());
  EXPECT_THAT(refused, IsAboutField("text"));
  EXPECT_EQ(ToWireError(refused).metadata["bounds"], "1 to 4096 bytes");
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("Generate"));
  step_.set_text("");
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              IsAboutField("text"));
  EngineOptions options;
  options.max_step_tokens = 4;
  const Converter shorter(*model_, options, kMessageBytes);
  step_.set_text("abcde");
  EXPECT_THAT(Wire(shorter.ToStepRequest(step_).status()),
              IsAboutField("text"));
  step_.set_text("a");
  step_.mutable_output()->set_text(true);
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()),
              IsAboutField("output.sample"));
  step_.mutable_output()->mutable_sample();
  EXPECT_THAT(Wire(converter_.ToStepRequest(step_).status()), IsOk());
}

TEST_F(ConvertTest, ScoreIsChecked) {
  v1::ScoreRequest score;
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()),
              IsAboutField("input"));
  score.set_text("");
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()),
              IsAboutField("text"));
  score.mutable_tokens();
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()),
              IsAboutField("tokens.ids"));
  score.set_text("ab");
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()), IsOk());
  score.set_expected_position(0);
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()),
              IsAboutField("expected_position"));
  score.set_session("sessions/a");
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()), IsOk());
  score.set_top_logprobs(0);
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()),
              IsAboutField("top_logprobs"));
  score.set_top_logprobs(257);
  EXPECT_THAT(Wire(converter_.ToScoreRequest(score).status()),
              IsAboutField("top_logprobs"));
}

TEST_F(ConvertTest, StepsLongerThanTheirBoundAreSentToGenerate) {
  EngineOptions options;
  options.max_step_tokens = 4;
  const Converter converter(*model_, options, kMessageBytes);
  step_.mutable_tokens()->mutable_ids()->Resize(4, 1);
  EXPECT_THAT(Wire(converter.ToStepRequest(step_).status()), IsOk());
  step_.mutable_tokens()->clear_ids();
  const grpc::Status empty = Wire(converter.ToStepRequest(step_).status());
  EXPECT_THAT(empty, IsAboutField("tokens.ids"));
  EXPECT_EQ(ToWireError(empty).metadata["bounds"], "1 to 4 tokens");
  step_.mutable_tokens()->mutable_ids()->Resize(5, 1);
  const grpc::Status refused = Wire(converter.ToStepRequest(step_).status());
  EXPECT_THAT(refused, IsAboutField("tokens.ids"));
  EXPECT_THAT(refused.error_message(), testing::HasSubstr("Generate"));
  EXPECT_EQ(ToWireError(refused).metadata["value"], "5");
  EXPECT_EQ(ToWireError(refused).metadata["bounds"], "4");
  const auto width = static_cast<int>(model_->description().hidden_size);
  step_.mutable_embeddings()->mutable_values()->Resize(4 * width, 0);
  EXPECT_THAT(Wire(converter.ToStepRequest(step_).status()), IsOk());
  step_.mutable_embeddings()->mutable_values()->Resize(5 * width, 0);
  EXPECT_THAT(Wire(converter.ToStepRequest(step_).status()),
              IsAboutField("embeddings"));
  generate_.mutable_tokens()->mutable_ids()->Resize(5, 1);
  EXPECT_THAT(Wire(converter.ToGenerateRequest(generate_).status()), IsOk());
}

TEST_F(ConvertTest, InputsLongerThanARequestMayHaveAreRefused) {
  EngineOptions options;
  options.max_tokens_per_request = 4;
  const Converter converter(*model_, options, kMessageBytes);
  step_.mutable_tokens()->mutable_ids()->Resize(5, 1);
  EXPECT_THAT(Wire(converter.ToStepRequest(step_).status()),
              IsAboutField("tokens.ids"));
  generate_.set_text("12345");
  EXPECT_THAT(Wire(converter.ToGenerateRequest(generate_).status()),
              IsAboutField("text"));
}

TEST_F(ConvertTest, SessionOptionsAreChecked) {
  v1::CreateSessionRequest request;
  request.mutable_session()->mutable_ttl()->set_seconds(0);
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session.ttl"));
  request.mutable_session()->mutable_ttl()->set_seconds(
      std::numeric_limits<int64_t>::max());
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session.ttl"));
  request.mutable_session()->mutable_ttl()->set_seconds(2);
  // The least one has no absolute value; -1 is of another sign than 2.
  for (const int32_t nanos :
       {-2'000'000'000, std::numeric_limits<int32_t>::min(),
        std::numeric_limits<int32_t>::max(), 1'000'000'000, -1}) {
    request.mutable_session()->mutable_ttl()->set_nanos(nanos);
    EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
                IsAboutField("session.ttl.nanos"));
  }
  request.mutable_session()->mutable_ttl()->set_seconds(-2);
  request.mutable_session()->mutable_ttl()->set_nanos(1);
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session.ttl.nanos"));
  request.mutable_session()->mutable_ttl()->set_seconds(2);
  request.mutable_session()->mutable_ttl()->set_nanos(500'000'000);
  const auto options = converter_.ToSessionOptions(request);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->ttl, absl::Milliseconds(2500));

  request.Clear();
  request.set_session_id("Upper");
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session_id"));
  request.Clear();
  request.set_model("models/other");
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              HasReason(ErrorReason::kModelNotFound));
  request.set_model("other");
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("model"));
}

TEST_F(ConvertTest, LabelsAreChecked) {
  v1::CreateSessionRequest request;
  auto& labels = *request.mutable_session()->mutable_labels();
  for (int i = 0; i < 17; ++i) labels["k" + std::to_string(i)] = "v";
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session.labels"));
  labels.clear();
  labels["Key"] = "v";
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session.labels"));
  labels.clear();
  labels["key"] = std::string(64, 'v');
  EXPECT_THAT(Wire(converter_.ToSessionOptions(request).status()),
              IsAboutField("session.labels.key"));
}

}  // namespace
}  // namespace steadystate::convert_test
