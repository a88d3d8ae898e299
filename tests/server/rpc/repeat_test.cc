// Goal: a client whose answers were lost sends its requests again, as they
// were, and nothing happens twice. Method: a real server and client on a tiny
// model; calls and streams that break, whose requests come again on others.
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::repeat_test {
namespace {

using Result = v1::StreamStepResponse::Result;

v1::StepRequest StepAt(const std::string& session, uint64_t position) {
  v1::StepRequest request =
      StepOf(session, {static_cast<int32_t>(position % 256)});
  request.set_expected_position(position);
  request.mutable_output()->mutable_sample()->set_seed(position);
  return request;
}

grpc::Status TryStep(OpenServer& server, const v1::StepRequest& request,
                     v1::StepResponse& response) {
  Context context;
  return server.generation().Step(&context, request, &response);
}

TEST(RepeatTest, AUnaryStepIsAnsweredAgain) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StepRequest request = StepAt(session, 0);
  request.set_request_id("a");
  const v1::StepResponse first = server.Step(request);
  EXPECT_FALSE(first.replayed());
  v1::StepResponse again = server.Step(request);
  EXPECT_TRUE(again.replayed());
  EXPECT_EQ(again.sampled_token(), first.sampled_token());
  EXPECT_EQ(again.sampled_logprob(), first.sampled_logprob());
  EXPECT_EQ(again.position(), 1u);
  EXPECT_EQ(server.PositionOf(session), 1u);
  request.mutable_output()->mutable_sample()->set_seed(9);
  const grpc::Status reused = TryStep(server, request, again);
  EXPECT_THAT(reused, HasReason(ErrorReason::kRequestIdReused));
  EXPECT_EQ(ToWireError(reused).metadata["field"], "request_id");
  request.set_request_id(std::string(129, 'x'));
  EXPECT_THAT(TryStep(server, request, again), IsAboutField("request_id"));
}

// A stream of steps of one session, each with its number as its name. Ends as
// it is told to.
class StepsFrom {
 public:
  StepsFrom(OpenServer& server, std::string session)
      : session_(std::move(session)),
        stream_(server.generation().StreamStep(&context_)) {}

  void Write(uint64_t begin, uint64_t end) {
    v1::StreamStepRequest message;
    for (uint64_t i = begin; i < end; ++i) {
      auto& request = *message.add_requests();
      request.set_request_id(absl::StrCat(i));
      *request.mutable_step() = StepAt(session_, i);
    }
    EXPECT_TRUE(stream_->Write(message));
  }
  std::vector<Result> Read(size_t count) {
    std::vector<Result> results;
    v1::StreamStepResponse response;
    while (results.size() < count && stream_->Read(&response)) {
      results.insert(results.end(), response.results().begin(),
                     response.results().end());
    }
    return results;
  }
  void Break() {
    context_.TryCancel();
    stream_->Finish();
  }
  void Close() {
    stream_->WritesDone();
    EXPECT_THAT(stream_->Finish(), IsOk());
  }

 private:
  const std::string session_;
  Context context_;
  const std::unique_ptr<
      grpc::ClientReaderWriter<v1::StreamStepRequest, v1::StreamStepResponse>>
      stream_;
};

TEST(RepeatTest, AStreamThatBreaksIsGoneOnWithOnAnother) {
  OpenServer server;
  const std::string session = server.CreateSession();
  std::mt19937 random(3);
  uint64_t known = 0;  // the client has the answers before this one
  std::vector<int32_t> tokens;
  while (known < 300) {
    StepsFrom stream(server, session);
    stream.Write(known, known + 16);
    // Some answers are read; the others are lost with the stream.
    for (const Result& result : stream.Read(random() % 8)) {
      ASSERT_TRUE(result.has_step()) << result.error().message();
      EXPECT_EQ(result.request_id(), absl::StrCat(known));
      EXPECT_EQ(result.step().position(), ++known);
      tokens.push_back(result.step().sampled_token());
    }
    stream.Break();
  }
  EXPECT_GT(server.MetricValue("steadystate_replays_total"), 0);
  // As of a session that nothing happened to.
  const std::string calm = server.CreateSession();
  for (uint64_t i = 0; i < known; ++i) {
    EXPECT_EQ(server.Step(StepAt(calm, i)).sampled_token(), tokens[i]) << i;
  }
}

TEST(RepeatTest, WhatWaitsOnABrokenStreamIsNotBusyForItsRepeat) {
  OpenServer server;
  const std::string session = server.CreateSession();
  StepsFrom broken(server, session);
  StepsFrom back(server, session);
  {
    EngineHold hold(server);
    broken.Write(0, 8);
    server.WaitForMetric("steadystate_requests_waiting", 8);
    back.Write(0, 8);
    server.WaitForMetric("steadystate_requests_waiting", 16);
  }
  const std::vector<Result> first = broken.Read(8);
  const std::vector<Result> second = back.Read(8);
  ASSERT_EQ(first.size(), 8u);
  ASSERT_EQ(second.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_FALSE(first[i].step().replayed());
    EXPECT_TRUE(second[i].step().replayed());
    EXPECT_EQ(first[i].step().sampled_token(),
              second[i].step().sampled_token());
  }
  broken.Close();
  back.Close();
  EXPECT_EQ(server.PositionOf(session), 8u);
}

// As of a client whose session somebody else writes to.
TEST(RepeatTest, WhatIsNoRepeatIsToldAtOnceThatTheSessionIsBusy) {
  OpenServer server;
  const std::string session = server.CreateSession();
  server.Step(StepAt(session, 0));
  v1::GenerateRequest endless;
  endless.set_session(session);
  endless.set_ignore_eos(true);
  Context context;
  const auto stream = server.generation().Generate(&context, endless);
  v1::GenerateResponse token;
  ASSERT_TRUE(stream->Read(&token));
  v1::StepRequest stale = StepAt(session, 0);
  stale.set_request_id("1");
  v1::StepResponse response;
  EXPECT_THAT(TryStep(server, stale, response),
              HasReason(ErrorReason::kSessionBusy));
  context.TryCancel();
  stream->Finish();
}

TEST(RepeatTest, AStepsOwnNameGoesBeforeThatOfTheStreamsRequest) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StepRequest step = StepAt(session, 0);
  step.set_request_id("own");
  v1::StreamStepRequest request;
  request.set_request_id("1");
  *request.mutable_step() = step;
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  v1::StreamStepResponse response;
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.results(0).request_id(), "1");
  stream->WritesDone();
  EXPECT_THAT(stream->Finish(), IsOk());
  EXPECT_TRUE(server.Step(step).replayed());
}

struct Told {
  std::vector<int32_t> tokens;
  size_t replayed = 0;
  std::string text;
  v1::GenerateResponse::Usage usage;
  grpc::Status status;
};

// Reads a generation to its end, or until it has told so many tokens.
Told Generate(OpenServer& server, const v1::GenerateRequest& request,
              size_t tokens = SIZE_MAX) {
  Context context;
  const auto stream = server.generation().Generate(&context, request);
  Told told;
  v1::GenerateResponse response;
  while (told.tokens.size() < tokens && stream->Read(&response)) {
    for (const auto& token : response.tokens()) {
      told.tokens.push_back(token.token());
      if (token.replayed()) ++told.replayed;
    }
    told.text += response.text_delta();
    if (response.has_usage()) told.usage = response.usage();
  }
  if (told.tokens.size() >= tokens) context.TryCancel();
  told.status = stream->Finish();
  return told;
}

// The seed is the server's.
v1::GenerateRequest LongPromptOf(const std::string& session) {
  v1::GenerateRequest request;
  request.set_session(session);
  request.set_text("Once upon a time");
  request.set_max_tokens(2000);
  request.set_ignore_eos(true);
  request.set_expected_position(0);
  request.set_request_id("story");
  return request;
}

TEST(RepeatTest, AGenerationWhoseStreamBrokeIsTakenUpAgain) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const v1::GenerateRequest request = LongPromptOf(session);
  std::vector<int32_t> longest;
  // Each client goes after some tokens, while the server is ahead of it.
  for (const size_t tokens : std::vector<size_t>{1, 2, 100, 300}) {
    const Told told = Generate(server, request, tokens);
    const size_t same = std::min(told.tokens.size(), longest.size());
    EXPECT_TRUE(std::equal(longest.begin(),
                           longest.begin() + static_cast<ptrdiff_t>(same),
                           told.tokens.begin()));
    if (told.tokens.size() > longest.size()) longest = told.tokens;
  }
  const Told last = Generate(server, request);
  ASSERT_THAT(last.status, IsOk());
  EXPECT_TRUE(std::equal(longest.begin(), longest.end(), last.tokens.begin()));
  EXPECT_GE(last.replayed, longest.size());
  EXPECT_EQ(last.usage.replayed_tokens(), last.replayed);
  EXPECT_EQ(last.usage.generated_tokens(), 2000u);
  EXPECT_EQ(server.PositionOf(session), 2016u);
  // As if it had been told at once, with the seed that the server had drawn.
  v1::GenerateRequest calm = LongPromptOf(server.CreateSession());
  calm.mutable_sampling()->set_seed(last.usage.seed());
  const Told whole = Generate(server, calm);
  EXPECT_EQ(last.tokens, whole.tokens);
  EXPECT_EQ(last.text, whole.text);
}

TEST(RepeatTest, ScoreAndEmbedSayThatTheyWereCarriedOut) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::ScoreRequest score;
  score.set_session(session);
  score.mutable_tokens()->add_ids(1);
  score.set_expected_position(0);
  score.set_request_id("a");
  v1::EmbedRequest embed;
  embed.set_session(session);
  embed.mutable_tokens()->add_ids(1);
  embed.set_expected_position(1);
  embed.set_request_id("a");
  const auto score_once = [&] {
    Context context;
    const auto stream = server.generation().Score(&context, score);
    v1::ScoreResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  };
  const auto embed_once = [&] {
    Context context;
    const auto stream = server.generation().Embed(&context, embed);
    v1::EmbedResponse response;
    while (stream->Read(&response)) {
    }
    return stream->Finish();
  };
  EXPECT_THAT(score_once(), IsOk());
  EXPECT_THAT(score_once(), HasReason(ErrorReason::kReplayUnavailable));
  EXPECT_THAT(embed_once(), IsOk());
  EXPECT_THAT(embed_once(), HasReason(ErrorReason::kReplayUnavailable));
  EXPECT_EQ(server.PositionOf(session), 2u);
}

}  // namespace
}  // namespace steadystate::repeat_test
