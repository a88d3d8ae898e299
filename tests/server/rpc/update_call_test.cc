// Goal: what a client may choose of a session is chosen when it is made and
// changed later, over the wire as the proto says. Method: a real server and
// client on a tiny model with a softmax layer, whose sessions hold 64 tokens.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::update_call_test {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

class UpdateCallTest : public testing::Test {
 protected:
  static OpenServerOptions Options() {
    OpenServerOptions options;
    options.model.softmax_layer = 1;
    return options;
  }

  grpc::Status Update(const v1::UpdateSessionRequest& request,
                      v1::Session* session = nullptr) {
    Context context;
    v1::Session unused;
    return server_.sessions().UpdateSession(
        &context, request, session == nullptr ? &unused : session);
  }

  grpc::Status Create(const v1::CreateSessionRequest& request,
                      v1::Session& session) {
    Context context;
    return server_.sessions().CreateSession(&context, request, &session);
  }

  // A session of 20 tokens.
  std::string Small() {
    v1::CreateSessionRequest request;
    request.mutable_session()->set_context_cap(20);
    v1::Session session;
    EXPECT_THAT(Create(request, session), IsOk());
    EXPECT_EQ(session.context_cap(), 20u);
    return session.name();
  }

  static v1::UpdateSessionRequest Of(const std::string& session,
                                     const std::string& path) {
    v1::UpdateSessionRequest request;
    request.mutable_session()->set_name(session);
    request.mutable_update_mask()->add_paths(path);
    return request;
  }

  OpenServer server_{Options()};
};

TEST_F(UpdateCallTest, ACapIsChosenAndRaised) {
  Context get;
  v1::GetModelRequest asked;
  asked.set_name("models/-");
  v1::Model model;
  ASSERT_THAT(server_.models().GetModel(&get, asked, &model), IsOk());
  EXPECT_EQ(model.context_cap(), 64u);
  EXPECT_EQ(model.max_context_cap(), 64u);
  const std::string name = Small();
  server_.Step(StepOf(name, SomeTokens(20, 1)));
  Context context;
  v1::StepResponse response;
  EXPECT_THAT(server_.generation().Step(&context, StepOf(name, {1}), &response),
              HasReason(ErrorReason::kContextCapReached));
  v1::UpdateSessionRequest request = Of(name, "context_cap");
  request.mutable_session()->set_context_cap(40);
  v1::Session session;
  ASSERT_THAT(Update(request, &session), IsOk());
  EXPECT_EQ(session.name(), name);
  EXPECT_EQ(session.context_cap(), 40u);
  EXPECT_EQ(session.position(), 20u);
  EXPECT_LT(session.state_bytes(), model.session_bytes());
  server_.Step(StepOf(name, SomeTokens(20, 2)));
  for (const uint64_t cap : {uint64_t{0}, uint64_t{65}}) {
    request.mutable_session()->set_context_cap(cap);
    EXPECT_THAT(Update(request), IsAboutField("session.context_cap"));
  }
  request.mutable_session()->set_context_cap(39);
  EXPECT_THAT(Update(request), HasReason(ErrorReason::kContextCapReached));
}

TEST_F(UpdateCallTest, WhatIsNotNamedStays) {
  v1::CreateSessionRequest create;
  create.mutable_session()->mutable_ttl()->set_seconds(90);
  (*create.mutable_session()->mutable_labels())["a"] = "b";
  v1::Session session;
  ASSERT_THAT(Create(create, session), IsOk());
  EXPECT_EQ(session.context_cap(), 64u);
  v1::UpdateSessionRequest request = Of(session.name(), "labels");
  request.mutable_session()->mutable_ttl()->set_seconds(7);
  request.mutable_session()->set_context_cap(7);
  (*request.mutable_session()->mutable_labels())["c"] = "d";
  ASSERT_THAT(Update(request, &session), IsOk());
  EXPECT_THAT(session.labels(), UnorderedElementsAre(Pair("c", "d")));
  EXPECT_EQ(session.ttl().seconds(), 90);
  EXPECT_EQ(session.context_cap(), 64u);
  request = Of(session.name(), "ttl");
  request.mutable_session()->mutable_ttl()->set_seconds(7);
  ASSERT_THAT(Update(request, &session), IsOk());
  EXPECT_EQ(session.ttl().seconds(), 7);
  EXPECT_THAT(session.labels(), UnorderedElementsAre(Pair("c", "d")));
  request.mutable_session()->clear_ttl();
  ASSERT_THAT(Update(request, &session), IsOk());
  EXPECT_EQ(session.ttl().seconds(), 3600);
}

TEST_F(UpdateCallTest, WrongRequestsAreRefused) {
  v1::UpdateSessionRequest request;
  EXPECT_THAT(Update(request), IsAboutField("session.name"));
  request.mutable_session()->set_name(Small());
  EXPECT_THAT(Update(request), IsAboutField("update_mask"));
  request.mutable_update_mask()->add_paths("position");
  EXPECT_THAT(Update(request), IsAboutField("update_mask.paths"));
  request = Of(request.session().name(), "ttl");
  request.mutable_session()->mutable_ttl()->set_nanos(1);
  EXPECT_THAT(Update(request), IsAboutField("session.ttl"));
  request = Of(request.session().name(), "labels");
  (*request.mutable_session()->mutable_labels())["Not a key"] = "";
  EXPECT_THAT(Update(request), IsAboutField("session.labels"));
  request.mutable_session()->set_name("sessions/none");
  (*request.mutable_session()->mutable_labels()).clear();
  EXPECT_THAT(Update(request), HasReason(ErrorReason::kSessionNotFound));
  v1::CreateSessionRequest create;
  create.mutable_session()->set_context_cap(65);
  v1::Session session;
  EXPECT_THAT(Create(create, session), IsAboutField("session.context_cap"));
}

}  // namespace
}  // namespace steadystate::update_call_test
