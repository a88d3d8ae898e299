// Goal: Generate's stream says exactly what was absorbed, whatever ends it.
// Method: a real server and client on a tiny model.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::generate_test {
namespace {

using Reader = grpc::ClientReader<v1::GenerateResponse>;

struct Generated {
  std::vector<v1::GenerateResponse::GeneratedToken> tokens;
  std::string text;
  uint64_t position = 0;
  v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;
  v1::GenerateResponse::Usage usage;
  grpc::Status status;
};

bool IsUtf8(const std::string& text) {
  v1::TokenizeRequest request;
  request.set_text(text);
  v1::TokenizeRequest parsed;
  return parsed.ParseFromString(request.SerializeAsString());
}

Generated Collect(Reader& stream) {
  Generated generated;
  v1::GenerateResponse response;
  while (stream.Read(&response)) {
    EXPECT_EQ(generated.finish_reason, v1::FINISH_REASON_UNSPECIFIED)
        << "a message after the last one";
    EXPECT_EQ(response.has_usage(),
              response.finish_reason() != v1::FINISH_REASON_UNSPECIFIED);
    EXPECT_TRUE(IsUtf8(response.text_delta()));
    for (const auto& token : response.tokens()) {
      generated.tokens.push_back(token);
    }
    generated.text += response.text_delta();
    generated.position = response.position();
    generated.finish_reason = response.finish_reason();
    if (response.has_usage()) generated.usage = response.usage();
  }
  generated.status = stream.Finish();
  return generated;
}

Generated Generate(OpenServer& server, const v1::GenerateRequest& request) {
  Context context;
  return Collect(*server.generation().Generate(&context, request));
}

v1::GenerateRequest PromptOf(const std::string& session, uint64_t max_tokens) {
  v1::GenerateRequest request;
  request.set_session(session);
  request.set_text("prompt");
  request.set_max_tokens(max_tokens);
  request.mutable_sampling()->set_seed(11);
  return request;
}

std::vector<int32_t> Ids(const Generated& generated) {
  std::vector<int32_t> ids;
  for (const auto& token : generated.tokens) ids.push_back(token.token());
  return ids;
}

TEST(GenerateTest, EverythingReturnedWasAbsorbed) {
  OpenServer server;
  const std::string session = server.CreateSession();
  server.Step(StepOf(session, {1, 2, 3}));
  v1::GenerateRequest request = PromptOf(session, 40);
  request.set_logprobs(2);
  const Generated generated = Generate(server, request);
  ASSERT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.finish_reason, v1::LENGTH);
  ASSERT_EQ(generated.tokens.size(), 40u);
  EXPECT_EQ(generated.position, 3u + 6u + 40u);
  EXPECT_EQ(server.PositionOf(session), generated.position);
  EXPECT_EQ(generated.usage.prompt_tokens(), 6u);
  EXPECT_EQ(generated.usage.generated_tokens(), 40u);
  EXPECT_EQ(generated.usage.seed(), 11u);
  EXPECT_TRUE(generated.usage.has_queue());
  EXPECT_TRUE(generated.usage.has_time_to_first_token());
  for (const auto& token : generated.tokens) {
    EXPECT_TRUE(token.has_logprob());
    EXPECT_EQ(token.top_logprobs_size(), 2);
  }
}

TEST(GenerateTest, LogprobsComeOnlyWhenAskedFor) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 3);
  EXPECT_FALSE(Generate(server, request).tokens.at(0).has_logprob());
  request.set_logprobs(0);
  const Generated generated = Generate(server, request);
  EXPECT_TRUE(generated.tokens.at(0).has_logprob());
  EXPECT_EQ(generated.tokens.at(0).top_logprobs_size(), 0);
}

TEST(GenerateTest, ZeroTokensAbsorbThePrompt) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const Generated generated = Generate(server, PromptOf(session, 0));
  ASSERT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.finish_reason, v1::LENGTH);
  EXPECT_TRUE(generated.tokens.empty());
  EXPECT_EQ(generated.position, 6u);
  EXPECT_EQ(server.PositionOf(session), 6u);
  EXPECT_FALSE(generated.usage.has_time_to_first_token());
}

TEST(GenerateTest, EmptyPromptGoesOn) {
  OpenServer server;
  const std::string whole = server.CreateSession();
  const std::string parts = server.CreateSession();
  const Generated once = Generate(server, PromptOf(whole, 20));
  const Generated first = Generate(server, PromptOf(parts, 12));
  v1::GenerateRequest rest = PromptOf(parts, 8);
  rest.clear_text();
  const Generated second = Generate(server, rest);
  ASSERT_THAT(second.status, IsOk());
  std::vector<int32_t> together = Ids(first);
  for (const int32_t id : Ids(second)) together.push_back(id);
  EXPECT_EQ(together, Ids(once));
}

TEST(GenerateTest, EmptyPromptOnAFreshSessionIsRefused) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 5);
  request.clear_text();
  EXPECT_THAT(Generate(server, request).status,
              HasReason(ErrorReason::kNoPendingLogits));
}

TEST(GenerateTest, SeedOfTheServerReproduces) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 30);
  request.clear_sampling();
  const Generated drawn = Generate(server, request);
  ASSERT_THAT(drawn.status, IsOk());
  request.set_session(server.CreateSession());
  request.mutable_sampling()->set_seed(drawn.usage.seed());
  EXPECT_EQ(Ids(Generate(server, request)), Ids(drawn));
  request.set_session(server.CreateSession());
  request.mutable_sampling()->set_seed(drawn.usage.seed() + 1);
  EXPECT_NE(Ids(Generate(server, request)), Ids(drawn));
}

TEST(GenerateTest, StopStringEndsTheTextBeforeIt) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 200);
  const Generated free = Generate(server, request);
  // Some two ASCII characters that come up in the text.
  size_t at = 10;
  while (at + 2 < free.text.size() &&
         (free.text[at] <= 0 || free.text[at + 1] <= 0)) {
    ++at;
  }
  ASSERT_LT(at + 2, free.text.size());
  const std::string stop = free.text.substr(at, 2);
  request.set_session(server.CreateSession());
  request.add_stop(stop);
  const Generated stopped = Generate(server, request);
  ASSERT_THAT(stopped.status, IsOk());
  EXPECT_EQ(stopped.finish_reason, v1::STOP_STRING);
  EXPECT_EQ(stopped.text, free.text.substr(0, free.text.find(stop)));
  EXPECT_EQ(stopped.position, 6u + stopped.tokens.size());
  EXPECT_EQ(server.PositionOf(request.session()), stopped.position);
}

TEST(GenerateTest, StopTokenIsReturnedAndAbsorbed) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 30);
  const Generated free = Generate(server, request);
  const int32_t stop = Ids(free)[7];
  request.set_session(server.CreateSession());
  request.add_stop_tokens(stop);
  const Generated stopped = Generate(server, request);
  EXPECT_EQ(stopped.finish_reason, v1::STOP_TOKEN);
  EXPECT_EQ(Ids(stopped).back(), stop);
  EXPECT_EQ(server.PositionOf(request.session()), 6u + stopped.tokens.size());
}

TEST(GenerateTest, CancelKeepsWhatWasReturned) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::GenerateRequest request = PromptOf(session, 0);
  request.clear_max_tokens();
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  uint64_t received = 0;
  while (received < 20 && stream->Read(&response)) {
    received += static_cast<uint64_t>(response.tokens_size());
    EXPECT_EQ(response.position(), 6u + received);
  }
  context.TryCancel();
  while (stream->Read(&response)) {
    received += static_cast<uint64_t>(response.tokens_size());
  }
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  const v1::Session idle = server.WaitForState(session, v1::Session::IDLE);
  server.WaitForMetric("steadystate_errors_total{reason=\"CANCELLED\"}", 1);
  EXPECT_GE(idle.position(), 6u + received);
  // It can be used again.
  server.Step(StepOf(session, {1}));
  EXPECT_EQ(server.PositionOf(session), idle.position() + 1);
}

TEST(GenerateTest, DeadlineEndsIt) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::GenerateRequest request = PromptOf(session, 0);
  request.clear_max_tokens();
  Generated generated;
  // A busy machine gets more time, until it has begun.
  for (absl::Duration timeout = absl::Milliseconds(250);
       generated.tokens.empty() && timeout < absl::Minutes(1); timeout *= 2) {
    Context context(timeout);
    generated = Collect(*server.generation().Generate(&context, request));
    EXPECT_EQ(generated.status.error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_FALSE(generated.tokens.empty());
  EXPECT_GE(server.WaitForState(session, v1::Session::IDLE).position(),
            generated.position);
  // The client may be first to see the time pass: then what arrives is its
  // cancellation.
  server.WaitForEither("steadystate_errors_total{reason=\"DEADLINE_EXCEEDED\"}",
                       "steadystate_errors_total{reason=\"CANCELLED\"}");
}

TEST(GenerateTest, ReaderThatDoesNotReadPausesItAndNobodyElse) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const std::string other = server.CreateSession();
  v1::GenerateRequest request = PromptOf(session, 0);
  request.clear_max_tokens();
  request.set_logprobs(256);
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  // What the kernel's and HTTP/2's buffers hold besides ours is some MiB.
  constexpr uint64_t kMostTokens = (32 << 20) / (256 * 10);
  uint64_t position = 0;
  int unchanged = 0;
  while (unchanged < 300 && position < kMostTokens) {
    server.Step(StepOf(other, {1}));
    const uint64_t before = position;
    position = server.PositionOf(session);
    unchanged = position > 0 && position == before ? unchanged + 1 : 0;
  }
  EXPECT_LT(position, kMostTokens);
  // One writer at a time.
  v1::StepResponse step;
  Context step_context;
  const grpc::Status busy =
      server.generation().Step(&step_context, StepOf(session, {1}), &step);
  EXPECT_THAT(busy, HasReason(ErrorReason::kSessionBusy));
  EXPECT_EQ(ToWireError(busy).metadata["session"], session);
  EXPECT_TRUE(ToWireError(busy).retry_after.has_value());
  // It goes on when the client reads again.
  v1::GenerateResponse response;
  while (response.position() <= position) {
    ASSERT_TRUE(stream->Read(&response));
  }
  context.TryCancel();
  stream->Finish();
  server.WaitForState(session, v1::Session::IDLE);
}

TEST(GenerateTest, DeletedSessionEndsIt) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::GenerateRequest request = PromptOf(session, 0);
  request.clear_max_tokens();
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  v1::GenerateResponse response;
  ASSERT_TRUE(stream->Read(&response));
  v1::DeleteSessionRequest deletion;
  deletion.set_name(session);
  google::protobuf::Empty empty;
  Context delete_context;
  ASSERT_THAT(
      server.sessions().DeleteSession(&delete_context, deletion, &empty),
      IsOk());
  while (stream->Read(&response)) {
  }
  EXPECT_THAT(stream->Finish(), HasReason(ErrorReason::kSessionNotFound));
}

TEST(GenerateTest, WithoutASessionItLeavesNothing) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 40);
  const Generated with = Generate(server, request);
  request.clear_session();
  const Generated without = Generate(server, request);
  ASSERT_THAT(without.status, IsOk());
  EXPECT_EQ(Ids(without), Ids(with));
  EXPECT_EQ(without.text, with.text);
  EXPECT_EQ(without.position, 46u);
  EXPECT_EQ(server.engine().ListSessions(10, "")->sessions.size(), 1u);
  // What goes on needs something to go on from.
  request.clear_text();
  EXPECT_THAT(Generate(server, request).status, IsAboutField("tokens.ids"));
  request.set_text("prompt");
  request.set_expected_position(0);
  EXPECT_THAT(Generate(server, request).status,
              IsAboutField("expected_position"));
}

TEST(GenerateTest, RefusalsComeBeforeAnyMessage) {
  OpenServer server;
  v1::GenerateRequest request = PromptOf("sessions/none", 1);
  EXPECT_THAT(Generate(server, request).status,
              HasReason(ErrorReason::kSessionNotFound));
  request = PromptOf(server.CreateSession(), 1);
  request.set_expected_position(5);
  EXPECT_THAT(Generate(server, request).status,
              HasReason(ErrorReason::kPositionMismatch));
  request.clear_expected_position();
  request.mutable_sampling()->set_temperature(-1);
  EXPECT_THAT(Generate(server, request).status,
              IsAboutField("sampling.temperature"));
}

TEST(GenerateTest, ModelWithoutTokenizerTakesTokens) {
  OpenServerOptions options;
  options.model.byte_tokenizer = false;
  OpenServer server(options);
  v1::GenerateRequest request = PromptOf(server.CreateSession(), 4);
  EXPECT_THAT(Generate(server, request).status,
              HasReason(ErrorReason::kTokenizerUnavailable));
  request.mutable_tokens()->add_ids(5);
  const Generated generated = Generate(server, request);
  ASSERT_THAT(generated.status, IsOk());
  EXPECT_EQ(generated.tokens.size(), 4u);
  EXPECT_TRUE(generated.text.empty());
}

}  // namespace
}  // namespace steadystate::generate_test
