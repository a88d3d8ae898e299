// Goal: Score agrees with stepping, bit for bit where it is cut alike and
// within rounding elsewhere, and bounds its messages. Method: a real server and
// client on tiny models.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/relative_rms.h"

namespace steadystate::score_test {
namespace {

struct Scored {
  std::vector<v1::ScoreResponse::ScoredToken> tokens;
  v1::ScoreResponse::Summary summary;
  int summaries = 0;
  size_t largest_message = 0;
  grpc::Status status;
};

Scored Score(OpenServer& server, const v1::ScoreRequest& request) {
  Scored scored;
  Context context;
  const auto stream = server.generation().Score(&context, request);
  v1::ScoreResponse response;
  while (stream->Read(&response)) {
    EXPECT_EQ(scored.summaries, 0) << "a message after the summary";
    for (const auto& token : response.tokens()) scored.tokens.push_back(token);
    if (response.has_summary()) {
      ++scored.summaries;
      scored.summary = response.summary();
    }
    scored.largest_message =
        std::max(scored.largest_message, response.ByteSizeLong());
  }
  scored.status = stream->Finish();
  return scored;
}

v1::ScoreRequest ScoreOf(const std::string& session,
                         const std::vector<int32_t>& tokens) {
  v1::ScoreRequest request;
  request.set_session(session);
  request.mutable_tokens()->mutable_ids()->Assign(tokens.begin(), tokens.end());
  return request;
}

double LogSoftmax(const google::protobuf::RepeatedField<float>& logits,
                  int token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - top);
  return double{logits.Get(token)} - top - std::log(sum);
}

TEST(ScoreTest, LogitsAndLogprobsAgreeWithSteps) {
  OpenServer server;
  const std::vector<int32_t> tokens = SomeTokens(100, 5);
  v1::ScoreRequest request = ScoreOf("", tokens);
  request.set_logits(true);
  request.set_top_logprobs(3);
  const Scored scored = Score(server, request);
  ASSERT_THAT(scored.status, IsOk());
  ASSERT_EQ(scored.tokens.size(), tokens.size());
  const std::string session = server.CreateSession();
  double total = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto& token = scored.tokens[i];
    EXPECT_EQ(token.token(), tokens[i]);
    EXPECT_EQ(token.position(), i + 1);
    EXPECT_EQ(token.has_logprob(), i > 0);
    EXPECT_EQ(token.top_logprobs_size(), i > 0 ? 3 : 0);
    if (i > 0) {
      total += double{token.logprob()};
      EXPECT_NEAR(token.logprob(),
                  LogSoftmax(scored.tokens[i - 1].logits(), tokens[i]), 1e-4);
    }
    const v1::StepResponse step =
        server.Step(LogitsStepOf(session, {tokens[i]}));
    EXPECT_LE(RelativeRms(token.logits(), step.logits()), kCutsAgree)
        << "at token " << i;
  }
  EXPECT_EQ(scored.summaries, 1);
  EXPECT_EQ(scored.summary.tokens(), tokens.size());
  EXPECT_EQ(scored.summary.scored_tokens(), tokens.size() - 1);
  EXPECT_EQ(scored.summary.position(), tokens.size());
  EXPECT_NEAR(scored.summary.total_logprob(), total, 1e-3);
}

// Logits after the last token of each piece, by one stream of steps.
std::vector<std::vector<float>> StreamLogits(OpenServer& server,
                                             const std::vector<int32_t>& tokens,
                                             size_t piece) {
  const std::string session = server.CreateSession();
  Context context;
  const auto stream = server.generation().StreamStep(&context);
  for (size_t at = 0; at < tokens.size(); at += piece) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(at);
    const size_t size = std::min(piece, tokens.size() - at);
    v1::StreamStepRequest request;
    *request.mutable_step() =
        LogitsStepOf(session, {begin, begin + static_cast<ptrdiff_t>(size)});
    EXPECT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  std::vector<std::vector<float>> logits;
  v1::StreamStepResponse response;
  while (stream->Read(&response)) {
    for (const auto& result : response.results()) {
      EXPECT_TRUE(result.has_step()) << result.error().message();
      const auto& row = result.step().logits();
      logits.emplace_back(row.begin(), row.end());
    }
  }
  EXPECT_THAT(stream->Finish(), IsOk());
  return logits;
}

TEST(ScoreTest, LogitsAreThoseOfAStreamWithTheSameCuts) {
  constexpr size_t kPiece = 16;
  for (const char* family :
       {"gla", "mamba2", "rwkv7", "delta_net", "linear_attn", "transformer"}) {
    SCOPED_TRACE(family);
    OpenServerOptions options;
    const std::string folder =
        absl::StrCat(STEADYSTATE_SOURCE_DIR "/tests/golden/", family);
    options.checkpoint = folder.c_str();
    options.engine.prefill_chunk_rows = kPiece;
    OpenServer server(options);
    const std::vector<int32_t> tokens = SomeTokens(90, 7, 61);
    v1::ScoreRequest request = ScoreOf("", tokens);
    request.set_logits(true);
    const Scored scored = Score(server, request);
    ASSERT_THAT(scored.status, IsOk());
    const auto streamed = StreamLogits(server, tokens, kPiece);
    ASSERT_EQ(streamed.size(), 6u);
    for (size_t i = 0; i < streamed.size(); ++i) {
      const size_t last = std::min((i + 1) * kPiece, tokens.size()) - 1;
      const auto& row = scored.tokens[last].logits();
      EXPECT_EQ(std::vector<float>(row.begin(), row.end()), streamed[i])
          << "after token " << last;
    }
  }
}

TEST(ScoreTest, FreshStateIsGivenBack) {
  OpenServerOptions options;
  options.session_budget = 1;
  OpenServer server(options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Score(server, ScoreOf("", {1, 2, 3})).status, IsOk());
  }
  const std::string session = server.CreateSession();
  const Scored refused = Score(server, ScoreOf("", {1, 2, 3}));
  EXPECT_THAT(refused.status, HasReason(ErrorReason::kStateBudgetExhausted));
  EXPECT_TRUE(ToWireError(refused.status).retry_after.has_value());
  EXPECT_THAT(Score(server, ScoreOf(session, {1, 2, 3})).status, IsOk());
}

TEST(ScoreTest, SessionGoesOnAndAbsorbs) {
  OpenServer server;
  const std::string session = server.CreateSession();
  server.Step(StepOf(session, {1, 2}));
  v1::ScoreRequest request = ScoreOf(session, {3, 4, 5});
  request.set_expected_position(2);
  const Scored scored = Score(server, request);
  ASSERT_THAT(scored.status, IsOk());
  ASSERT_EQ(scored.tokens.size(), 3u);
  EXPECT_TRUE(scored.tokens[0].has_logprob());
  EXPECT_EQ(scored.summary.scored_tokens(), 3u);
  EXPECT_EQ(server.PositionOf(session), 5u);
  EXPECT_THAT(Score(server, request).status,
              HasReason(ErrorReason::kPositionMismatch));
  EXPECT_EQ(server.PositionOf(session), 5u);
}

TEST(ScoreTest, TextIsTokens) {
  OpenServer server;
  v1::ScoreRequest request;
  request.set_text("abc");
  const Scored scored = Score(server, request);
  ASSERT_THAT(scored.status, IsOk());
  ASSERT_EQ(scored.tokens.size(), 3u);
  EXPECT_EQ(scored.tokens[2].token(), 'c');
}

TEST(ScoreTest, MessagesStayBelowOneMebibyte) {
  OpenServerOptions options;
  options.model.vocab_size = 32768;  // 128 KiB of logits a token
  OpenServer server(options);
  v1::ScoreRequest request = ScoreOf("", SomeTokens(60, 6));
  request.set_logits(true);
  const Scored scored = Score(server, request);
  ASSERT_THAT(scored.status, IsOk());
  EXPECT_EQ(scored.tokens.size(), 60u);
  EXPECT_LE(scored.largest_message, size_t{1} << 20);
  EXPECT_GT(scored.largest_message, size_t{128} << 10);
}

TEST(ScoreTest, ErrorsAreTold) {
  OpenServer server;
  EXPECT_THAT(Score(server, ScoreOf("sessions/none", {1})).status,
              HasReason(ErrorReason::kSessionNotFound));
  EXPECT_THAT(Score(server, ScoreOf("", {256})).status,
              HasReason(ErrorReason::kTokenOutOfRange));
  EXPECT_THAT(Score(server, {}).status, IsAboutField("input"));
}

}  // namespace
}  // namespace steadystate::score_test
