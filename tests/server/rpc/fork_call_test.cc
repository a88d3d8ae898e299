// Goal: a session is copied over the wire as the proto says, and nobody waits
// for that who is not concerned. Method: a real server and client on a tiny
// model; the thread that copies is held.
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/parked_threads.h"

namespace steadystate::fork_call_test {
namespace {

using testing::ElementsAre;

grpc::Status Fork(OpenServer& server, const v1::ForkSessionRequest& request,
                  v1::ForkSessionResponse& response,
                  absl::Duration timeout = absl::Seconds(60)) {
  Context context(timeout);
  return server.sessions().ForkSession(&context, request, &response);
}

std::vector<float> LogitsAfter(OpenServer& server, const std::string& session) {
  const v1::StepResponse response =
      server.Step(LogitsStepOf(session, {1, 2, 3}));
  return {response.logits().begin(), response.logits().end()};
}

TEST(ForkCallTest, MakesCopiesUnderTheirNames) {
  OpenServer server;
  v1::ForkSessionRequest request;
  request.set_name(server.CreateSession());
  server.Step(StepOf(request.name(), SomeTokens(20, 1)));
  request.add_session_ids("one");
  request.add_session_ids("two");
  (*request.mutable_session()->mutable_labels())["kind"] = "fork";
  v1::ForkSessionResponse response;
  ASSERT_THAT(Fork(server, request, response), IsOk());
  EXPECT_THAT(response.sessions(), ElementsAre("sessions/one", "sessions/two"));
  EXPECT_EQ(response.position(), 20u);
  EXPECT_EQ(server.MetricValue("steadystate_sessions_created_total"), 3);
  const std::vector<float> logits = LogitsAfter(server, request.name());
  for (const std::string& name : response.sessions()) {
    EXPECT_EQ(server.WaitForState(name, v1::Session::IDLE).labels().at("kind"),
              "fork");
    EXPECT_EQ(LogitsAfter(server, name), logits);
  }
  EXPECT_THAT(Fork(server, request, response),
              HasReason(ErrorReason::kSessionAlreadyExists));
}

TEST(ForkCallTest, MakesAsManyAsAreWanted) {
  OpenServer server;
  v1::ForkSessionRequest request;
  request.set_name(server.CreateSession());
  v1::ForkSessionResponse one;
  ASSERT_THAT(Fork(server, request, one), IsOk());
  EXPECT_EQ(one.sessions_size(), 1);
  EXPECT_EQ(one.position(), 0u);
  request.set_count(64);
  v1::ForkSessionResponse many;
  ASSERT_THAT(Fork(server, request, many), IsOk());
  EXPECT_EQ(many.sessions_size(), 64);
  EXPECT_EQ(server.PositionOf(many.sessions(63)), 0u);
}

TEST(ForkCallTest, WrongRequestsAreRefused) {
  OpenServer server;
  v1::ForkSessionRequest request;
  v1::ForkSessionResponse response;
  EXPECT_THAT(Fork(server, request, response), IsAboutField("name"));
  request.set_name("sessions/none");
  EXPECT_THAT(Fork(server, request, response),
              HasReason(ErrorReason::kSessionNotFound));
  request.set_name(server.CreateSession());
  for (const uint32_t count : {0u, 257u}) {
    request.set_count(count);
    EXPECT_THAT(Fork(server, request, response), IsAboutField("count"));
  }
  request.set_count(2);
  request.add_session_ids("one");
  EXPECT_THAT(Fork(server, request, response), IsAboutField("count"));
  request.clear_count();
  request.add_session_ids("one");
  EXPECT_THAT(Fork(server, request, response), IsAboutField("session_ids"));
  request.set_session_ids(1, "Not an id");
  EXPECT_THAT(Fork(server, request, response), IsAboutField("session_ids"));
  for (int i = 0; i < 300; ++i) request.add_session_ids(absl::StrCat(i));
  EXPECT_THAT(Fork(server, request, response), IsAboutField("session_ids"));
  request.clear_session_ids();
  request.mutable_session()->mutable_ttl()->set_seconds(-1);
  EXPECT_THAT(Fork(server, request, response), IsAboutField("session.ttl"));
  request.clear_session();
  request.set_expected_position(3);
  EXPECT_THAT(Fork(server, request, response),
              HasReason(ErrorReason::kPositionMismatch));
  request.clear_expected_position();
  ASSERT_THAT(Fork(server, request, response), IsOk());
  EXPECT_EQ(response.sessions_size(), 1);
}

TEST(ForkCallTest, AStreamInProgressIsForkedAndGoesOn) {
  OpenServer server;
  const std::string session = server.CreateSession();
  v1::GenerateRequest endless;
  endless.set_session(session);
  endless.set_text("a");
  endless.set_ignore_eos(true);
  Context context;
  const auto stream = server.generation().Generate(&context, endless);
  v1::GenerateResponse token;
  ASSERT_TRUE(stream->Read(&token));
  v1::ForkSessionRequest request;
  request.set_name(session);
  v1::ForkSessionResponse response;
  ASSERT_THAT(Fork(server, request, response), IsOk());
  EXPECT_GE(response.position(), 1u);
  ASSERT_TRUE(stream->Read(&token));
  context.TryCancel();
  stream->Finish();
  server.Step(StepOf(response.sessions(0), {1}));
}

TEST(ForkCallTest, WhileACopyIsMadeOthersGoOn) {
  OpenServer server;
  const std::vector<std::string> sessions = server.CreateSessions(2);
  v1::ForkSessionRequest request;
  request.set_name(sessions[0]);
  ThreadHold hold("SessionKeeper::Fork");
  grpc::Status status;
  v1::ForkSessionResponse response;
  std::thread fork([&] { status = Fork(server, request, response); });
  hold.WaitUntilHeld();
  server.Step(StepOf(sessions[1], {1, 2, 3}));
  EXPECT_EQ(server.PositionOf(sessions[0]), 0u);
  hold.Release();
  fork.join();
  EXPECT_THAT(status, IsOk());
}

}  // namespace
}  // namespace steadystate::fork_call_test
