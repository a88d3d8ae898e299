// Goal: messages print as JSON and as lines, nothing lost. Method: messages of
// the contract with every kind of field.
#include "client/steadystate/output.h"

#include "client/steadystate/generation_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "steadystate/v1/generation.pb.h"
#include "steadystate/v1/model.pb.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate::client {
namespace {

using testing::HasSubstr;

v1::Session SomeSession() {
  v1::Session session;
  session.set_name("sessions/a");
  session.set_position(18446744073709551615u);
  session.set_state_bytes(4096);
  session.set_state(v1::Session::IDLE);
  session.mutable_create_time()->set_seconds(1767225600);
  session.mutable_create_time()->set_nanos(500000000);
  session.mutable_ttl()->set_seconds(90);
  (*session.mutable_labels())["user"] = "ada";
  return session;
}

TEST(ToJsonTest, FieldsHaveTheNamesAndKindsOfTheContract) {
  EXPECT_EQ(
      ToJson(SomeSession()).dump(),
      R"({"name":"sessions/a","model":"","position":18446744073709551615,)"
      R"("state_bytes":4096,"state":"IDLE",)"
      R"("create_time":"2026-01-01T00:00:00.5+00:00",)"
      R"("ttl":90.0,"labels":{"user":"ada"}})");
}

TEST(ToJsonTest, RepeatedAndNestedMessagesAreArraysAndObjects) {
  v1::Model model;
  model.add_eos_tokens(2);
  auto* slot = model.add_state_slots();
  slot->set_name("S");
  slot->add_shape(4);
  slot->add_shape(8);
  model.mutable_execution()->set_threads(2);
  const Json json = ToJson(model);
  EXPECT_EQ(json["eos_tokens"].dump(), "[2]");
  EXPECT_EQ(json["state_slots"][0]["shape"].dump(), "[4,8]");
  EXPECT_EQ(json["state_slots"][0]["grows"], false);
  EXPECT_EQ(json["execution"]["threads"], 2);
}

TEST(ToJsonTest, OptionalFieldsThatAreNotSetAreLeftOut) {
  v1::Sampling sampling;
  sampling.set_temperature(0);
  (*sampling.mutable_logit_bias())[7] = -1.5f;
  EXPECT_EQ(ToJson(sampling).dump(),
            R"({"temperature":0.0,"logit_bias":{"7":-1.5}})");
}

TEST(FormatLinesTest, AlignsMembersAndCountsLists) {
  EXPECT_EQ(FormatLines(Json{{"name", "a b"},
                             {"count", 7},
                             {"ids", {1, 2}},
                             {"slots", {{{"x", 1}}, {{"x", 2}}}}}),
            "name   a b\ncount  7\nids    [1,2]\nslots  2 (see --json)\n");
}

// Adds one message with `count` tokens at `now`.
void AddTokens(int count, SteadyTime now, GenerationReport& report) {
  v1::GenerateResponse message;
  for (int i = 0; i < count; ++i) message.add_tokens()->set_token(65);
  message.set_text_delta(std::string(static_cast<size_t>(count), 'A'));
  report.Add(message, now);
}

TEST(GenerationReportTest, CountsFromMessages) {
  const SteadyTime start;
  GenerationReport report(start);
  AddTokens(1, start + std::chrono::milliseconds(250), report);
  AddTokens(2, start + std::chrono::milliseconds(750), report);
  AddTokens(2, start + std::chrono::milliseconds(1250), report);
  v1::GenerateResponse last;
  last.set_position(12);
  last.set_finish_reason(v1::LENGTH);
  last.mutable_usage()->set_prompt_tokens(7);
  last.mutable_usage()->set_seed(99);
  report.Add(last, start + std::chrono::seconds(9));
  EXPECT_EQ(report.position(), 12u);
  EXPECT_EQ(report.time_to_first_token(), absl::Milliseconds(250));
  EXPECT_EQ(report.tokens_per_second(), 4.0);
  const Json json = report.ToJson(SomeSession());
  EXPECT_EQ(json["text"], "AAAAA");
  EXPECT_EQ(json["tokens"].size(), 5u);
  EXPECT_EQ(json["generated_tokens"], 5);
  EXPECT_EQ(json["prompt_tokens"], 7);
  EXPECT_EQ(json["finish_reason"], "LENGTH");
  EXPECT_EQ(json["seed"], 99);
  EXPECT_FALSE(json.contains("logprobs"));
  EXPECT_THAT(report.Summary(SomeSession(), /*deleted=*/true),
              HasSubstr("state                4096 bytes"));
}

TEST(GenerationReportTest, WithoutTokensThereIsNoSpeed) {
  GenerationReport report{SteadyTime()};
  v1::GenerateResponse last;
  last.mutable_usage()->set_prompt_tokens(7);
  report.Add(last, SteadyTime(std::chrono::seconds(1)));
  EXPECT_FALSE(report.time_to_first_token().has_value());
  EXPECT_FALSE(report.tokens_per_second().has_value());
  EXPECT_FALSE(
      report.ToJson(SomeSession()).contains("time_to_first_token_seconds"));
}

}  // namespace
}  // namespace steadystate::client
