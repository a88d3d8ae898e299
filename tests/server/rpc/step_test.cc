// Goal: Step advances a session once or not at all, and answers what was asked
// for. Method: a real server and client on a tiny model.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/direct_session.h"

namespace steadystate::step_test {
namespace {

using testing::Contains;
using testing::Pair;

grpc::Status TryStep(OpenServer& server, const v1::StepRequest& request,
                     v1::StepResponse* response) {
  Context context;
  return server.generation().Step(&context, request, response);
}

grpc::Status TryStep(OpenServer& server, const v1::StepRequest& request) {
  v1::StepResponse response;
  return TryStep(server, request, &response);
}

std::vector<float> LogitsOf(const v1::StepResponse& response) {
  return {response.logits().begin(), response.logits().end()};
}

TEST(StepTest, LogitsAreTheModelsToTheBit) {
  OpenServer server;
  const std::string session = server.CreateSession();
  DirectSession direct(server.model());
  for (const int32_t token : SomeTokens(20, 1)) {
    const v1::StepResponse response =
        server.Step(LogitsStepOf(session, {token}));
    EXPECT_EQ(LogitsOf(response), direct.Feed({&token, 1}));
    EXPECT_EQ(response.position(), direct.position());
    EXPECT_EQ(response.session(), session);
  }
}

TEST(StepTest, AnswersOnlyWhatWasAskedFor) {
  OpenServer server;
  const std::string session = server.CreateSession();
  const v1::StepResponse bare = server.Step(StepOf(session, {1, 2}));
  EXPECT_EQ(bare.position(), 2u);
  EXPECT_FALSE(bare.has_sampled_token());
  EXPECT_FALSE(bare.has_sampled_logprob());
  EXPECT_EQ(bare.top_logprobs_size(), 0);
  EXPECT_EQ(bare.logits_size(), 0);
  EXPECT_EQ(bare.hidden_size(), 0);
  EXPECT_TRUE(bare.has_timing());

  v1::StepRequest request = LogitsStepOf(session, {3});
  request.mutable_output()->set_hidden(true);
  request.mutable_output()->set_top_logprobs(5);
  request.mutable_output()->mutable_sample()->set_temperature(0);
  const v1::StepResponse full = server.Step(request);
  EXPECT_EQ(full.logits_size(), 256);
  EXPECT_EQ(full.hidden_size(), 32);
  ASSERT_EQ(full.top_logprobs_size(), 5);
  const auto best =
      std::max_element(full.logits().begin(), full.logits().end());
  EXPECT_EQ(full.sampled_token(), best - full.logits().begin());
  EXPECT_EQ(full.top_logprobs(0).token(), full.sampled_token());
  EXPECT_EQ(full.top_logprobs(0).logprob(), full.sampled_logprob());
  for (int i = 1; i < 5; ++i) {
    EXPECT_GE(full.top_logprobs(i - 1).logprob(),
              full.top_logprobs(i).logprob());
  }
  EXPECT_EQ(server.PositionOf(session), 3u);  // the drawn token not absorbed
}

TEST(StepTest, EmbeddingsAdvanceTheSession) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StepRequest request = LogitsStepOf(session, {});
  request.mutable_embeddings()->mutable_values()->Resize(3 * 32, 0.25f);
  const v1::StepResponse response = server.Step(request);
  EXPECT_EQ(response.position(), 3u);
  EXPECT_EQ(response.logits_size(), 256);
  request.mutable_embeddings()->set_values(
      40, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(TryStep(server, request), IsAboutField("embeddings.values[40]"));
  EXPECT_EQ(server.PositionOf(session), 3u);
}

TEST(StepTest, ExpectedPositionZeroIsAPosition) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::StepRequest request = StepOf(session, {1, 2});
  request.set_expected_position(0);
  EXPECT_THAT(TryStep(server, request), IsOk());
  const grpc::Status repeat = TryStep(server, request);
  EXPECT_THAT(repeat, HasReason(ErrorReason::kPositionMismatch));
  const WireError error = ToWireError(repeat);
  EXPECT_THAT(error.metadata, Contains(Pair("position", "2")));
  EXPECT_THAT(error.metadata, Contains(Pair("expected_position", "0")));
  EXPECT_EQ(server.PositionOf(session), 2u);
}

TEST(StepTest, UnknownSessionIsNotFound) {
  OpenServer server;
  EXPECT_THAT(TryStep(server, StepOf("sessions/none", {1})),
              HasReason(ErrorReason::kSessionNotFound));
  EXPECT_THAT(TryStep(server, StepOf("none", {1})), IsAboutField("session"));
}

TEST(StepTest, RefusedStepChangesNothing) {
  OpenServer server;
  const std::string session = server.CreateSession();
  EXPECT_THAT(TryStep(server, StepOf(session, {1, 999})),
              HasReason(ErrorReason::kTokenOutOfRange));
  EXPECT_THAT(TryStep(server, StepOf(session, {})), IsAboutField("tokens.ids"));
  EXPECT_EQ(server.PositionOf(session), 0u);
}

TEST(StepTest, CapOfSoftmaxLayersIsTold) {
  OpenServerOptions options;
  options.model.softmax_layer = 0;
  options.model.max_position_embeddings = 8;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  server.Step(StepOf(session, SomeTokens(7, 2)));
  const grpc::Status status = TryStep(server, StepOf(session, {1, 2}));
  EXPECT_THAT(status, HasReason(ErrorReason::kContextCapReached));
  EXPECT_THAT(ToWireError(status).metadata, Contains(Pair("position", "7")));
  EXPECT_THAT(ToWireError(status).metadata, Contains(Pair("context_cap", "8")));
  EXPECT_EQ(server.PositionOf(session), 7u);
}

TEST(StepTest, AnswerLargerThanAMessageIsRefusedBeforeComputing) {
  OpenServerOptions options;
  options.model.vocab_size = 32768;
  options.server.max_message_bytes = 64 << 10;
  OpenServer server(options);
  const std::string session = server.CreateSession();
  EXPECT_THAT(TryStep(server, LogitsStepOf(session, {1})),
              HasReason(ErrorReason::kMessageTooLarge));
  EXPECT_EQ(server.PositionOf(session), 0u);
  EXPECT_THAT(TryStep(server, StepOf(session, {1})), IsOk());
}

TEST(StepTest, DrainingIsTold) {
  OpenServer server;
  const std::string session = server.CreateSession();
  server.engine().BeginDrain();
  const grpc::Status status = TryStep(server, StepOf(session, {1}));
  EXPECT_THAT(status, HasReason(ErrorReason::kDraining));
  EXPECT_TRUE(ToWireError(status).retry_after.has_value());
}

TEST(StepTest, SeedDecidesTheDraw) {
  OpenServer server;
  std::vector<int32_t> drawn;
  for (int i = 0; i < 2; ++i) {
    const std::string session = server.CreateSession();
    for (const int32_t token : SomeTokens(10, 3)) {
      v1::StepRequest request = StepOf(session, {token});
      request.mutable_output()->mutable_sample()->set_seed(77);
      drawn.push_back(server.Step(request).sampled_token());
    }
  }
  EXPECT_TRUE(
      std::equal(drawn.begin(), drawn.begin() + 10, drawn.begin() + 10));
}

}  // namespace
}  // namespace steadystate::step_test
