// Goal: a session goes back over the wire as the proto says, and so do copies
// of it. Method: a real server and client on a tiny model; what a session says
// after it has gone back is compared with what it said there before.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::rewind_call_test {
namespace {

grpc::Status Rewind(OpenServer& server, const v1::RewindSessionRequest& request,
                    v1::Session& response) {
  Context context;
  return server.sessions().RewindSession(&context, request, &response);
}

std::vector<float> LogitsAfter(OpenServer& server, const std::string& session) {
  const v1::StepResponse response =
      server.Step(LogitsStepOf(session, {1, 2, 3}));
  return {response.logits().begin(), response.logits().end()};
}

TEST(RewindCallTest, GoesToAPositionOrSoManyTokensBack) {
  OpenServer server;
  v1::RewindSessionRequest request;
  request.set_name(server.CreateSession());
  server.Step(StepOf(request.name(), SomeTokens(20, 1)));
  const std::vector<float> logits = LogitsAfter(server, request.name());
  request.set_position(20);
  v1::Session session;
  ASSERT_THAT(Rewind(server, request, session), IsOk());
  EXPECT_EQ(session.name(), request.name());
  EXPECT_EQ(session.position(), 20u);
  EXPECT_EQ(session.earliest_position(), 0u);
  EXPECT_EQ(LogitsAfter(server, request.name()), logits);
  request.set_tokens_back(3);
  request.set_expected_position(23);
  ASSERT_THAT(Rewind(server, request, session), IsOk());
  EXPECT_EQ(session.position(), 20u);
  // A repeat of that does not go back once more.
  EXPECT_THAT(Rewind(server, request, session),
              HasReason(ErrorReason::kPositionMismatch));
  EXPECT_EQ(LogitsAfter(server, request.name()), logits);
}

TEST(RewindCallTest, CopiesAreMadeOfWhatWas) {
  OpenServer server;
  v1::ForkSessionRequest request;
  request.set_name(server.CreateSession());
  server.Step(StepOf(request.name(), SomeTokens(20, 1)));
  const std::vector<float> logits = LogitsAfter(server, request.name());
  request.set_position(20);
  v1::ForkSessionResponse response;
  Context context;
  ASSERT_THAT(server.sessions().ForkSession(&context, request, &response),
              IsOk());
  EXPECT_EQ(response.position(), 20u);
  EXPECT_EQ(LogitsAfter(server, response.sessions(0)), logits);
  EXPECT_EQ(server.PositionOf(request.name()), 23u);
}

TEST(RewindCallTest, WrongRequestsAreRefused) {
  OpenServer server;
  v1::RewindSessionRequest request;
  v1::Session session;
  EXPECT_THAT(Rewind(server, request, session), IsAboutField("name"));
  request.set_name(server.CreateSession());
  server.Step(StepOf(request.name(), SomeTokens(5, 1)));
  EXPECT_THAT(Rewind(server, request, session), IsAboutField("to"));
  request.set_tokens_back(1);
  EXPECT_THAT(Rewind(server, request, session),
              IsAboutField("expected_position"));
  request.set_position(6);
  EXPECT_THAT(Rewind(server, request, session),
              HasReason(ErrorReason::kPositionOutOfReach));
  request.set_position(1);
  request.set_expected_position(4);
  EXPECT_THAT(Rewind(server, request, session),
              HasReason(ErrorReason::kPositionMismatch));
  request.set_name("sessions/none");
  EXPECT_THAT(Rewind(server, request, session),
              HasReason(ErrorReason::kSessionNotFound));
}

}  // namespace
}  // namespace steadystate::rewind_call_test
