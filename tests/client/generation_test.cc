// Goal: a generation is reported as its messages told it. Method: messages made
// by hand at chosen times.
#include "client/cli/generation.h"

#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace steadystate::client::generation_test {
namespace {

using testing::HasSubstr;

v1::Session SomeSession() {
  v1::Session session;
  session.set_name("sessions/a");
  session.set_state_bytes(4096);
  return session;
}

// Adds one message with `count` tokens at `now`.
void AddTokens(int count, std::chrono::steady_clock::time_point now,
               GenerationReport& report) {
  v1::GenerateResponse message;
  for (int i = 0; i < count; ++i) message.add_tokens()->set_token(65);
  message.set_text_delta(std::string(static_cast<size_t>(count), 'A'));
  report.Add(message, now);
}

TEST(GenerationReportTest, CountsFromMessages) {
  const std::chrono::steady_clock::time_point start;
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

// Such a message may come before anything else does, and has no position then.
TEST(GenerationReportTest, AServerThatGoesAwayChangesNothingElse) {
  const std::chrono::steady_clock::time_point start;
  GenerationReport report(start);
  v1::GenerateResponse piece;
  piece.set_position(4096);
  report.Add(piece, start);
  EXPECT_EQ(report.going_away(), std::nullopt);
  EXPECT_FALSE(report.ToJson(SomeSession()).contains("going_away"));
  v1::GenerateResponse told;
  told.mutable_going_away()->mutable_requests_until()->set_seconds(1000);
  report.Add(told, start + std::chrono::milliseconds(1));
  EXPECT_EQ(report.position(), 4096u);
  EXPECT_EQ(report.going_away(), absl::FromUnixSeconds(1000));
  AddTokens(1, start + std::chrono::milliseconds(2), report);
  EXPECT_EQ(report.time_to_first_token(), absl::Milliseconds(2));
  EXPECT_TRUE(report.ToJson(SomeSession()).contains("going_away"));
}

TEST(GenerationReportTest, WithoutTokensThereIsNoSpeed) {
  GenerationReport report{std::chrono::steady_clock::time_point()};
  v1::GenerateResponse last;
  last.mutable_usage()->set_prompt_tokens(7);
  report.Add(last,
             std::chrono::steady_clock::time_point(std::chrono::seconds(1)));
  EXPECT_FALSE(report.time_to_first_token().has_value());
  EXPECT_FALSE(report.tokens_per_second().has_value());
  EXPECT_FALSE(
      report.ToJson(SomeSession()).contains("time_to_first_token_seconds"));
}

// What comes together says how it was sent, not how fast it was drawn.
TEST(GenerationReportTest, TokensThatComeTogetherAreCountedFromTheStart) {
  const std::chrono::steady_clock::time_point start;
  GenerationReport report(start);
  AddTokens(1, start + std::chrono::microseconds(3996), report);
  EXPECT_EQ(report.tokens_per_second(), std::nullopt);
  AddTokens(1, start + std::chrono::microseconds(4000), report);
  EXPECT_DOUBLE_EQ(report.tokens_per_second().value(), 500.0);
  AddTokens(2, start + std::chrono::microseconds(13996), report);
  EXPECT_DOUBLE_EQ(report.tokens_per_second().value(), 300.0);
}

// The last message, which has the counts, never comes.
TEST(GenerationReportTest, ACutGenerationIsCountedByItsPositions) {
  GenerationReport report{std::chrono::steady_clock::time_point()};
  v1::GenerateResponse message;
  message.set_position(12);
  message.add_tokens()->set_token(7);
  message.add_tokens()->set_token(8);
  report.Add(message, std::chrono::steady_clock::time_point());
  report.EndedBy(absl::StatusCode::kCancelled);
  v1::Session session;
  session.set_position(4);
  const Json json = report.ToJson(session);
  EXPECT_EQ(json["prompt_tokens"], 6);
  EXPECT_EQ(json["generated_tokens"], 2);
  EXPECT_EQ(json["finish_reason"], "CANCELLED");
  EXPECT_FALSE(json.contains("seed"));
}

TEST(ParseMaxTokensTest, TakesNumbersAndNone) {
  EXPECT_EQ(*ParseMaxTokens("12"), 12u);
  EXPECT_EQ(*ParseMaxTokens("none"), std::nullopt);
  EXPECT_FALSE(ParseMaxTokens("-1").ok());
  EXPECT_THAT(ParseMaxTokens("18446744073709551616").status().message(),
              HasSubstr("more than 18446744073709551615"));
}

}  // namespace
}  // namespace steadystate::client::generation_test
