// Goal: checkpoints are kept, listed, used and deleted over the wire as the
// proto says. Method: a real server and client on a tiny model; what sessions
// that begin there say is compared with what the session says that they were
// made of.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"

namespace steadystate::checkpoint_test {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  CheckpointTest() : session_(server_.CreateSession()) {
    server_.Step(StepOf(session_, SomeTokens(20, 1)));
  }

  grpc::Status Keep(const v1::CreateCheckpointRequest& request,
                    v1::Checkpoint& response) {
    Context context;
    return server_.sessions().CreateCheckpoint(&context, request, &response);
  }
  grpc::Status Create(const v1::CreateSessionRequest& request,
                      v1::Session& response) {
    Context context;
    return server_.sessions().CreateSession(&context, request, &response);
  }
  grpc::Status Delete(const std::string& name) {
    Context context;
    v1::DeleteCheckpointRequest request;
    request.set_name(name);
    google::protobuf::Empty response;
    return server_.sessions().DeleteCheckpoint(&context, request, &response);
  }
  std::vector<float> LogitsAfter(const std::string& session) {
    const v1::StepResponse response =
        server_.Step(LogitsStepOf(session, {1, 2, 3}));
    return {response.logits().begin(), response.logits().end()};
  }

  OpenServer server_;
  const std::string session_;
};

TEST_F(CheckpointTest, SessionsBeginThereAndGoBackThere) {
  v1::CreateCheckpointRequest keep;
  keep.set_session(session_);
  keep.set_checkpoint_id("prompt");
  keep.set_expected_position(20);
  (*keep.mutable_checkpoint()->mutable_labels())["kind"] = "system";
  v1::Checkpoint checkpoint;
  ASSERT_THAT(Keep(keep, checkpoint), IsOk());
  EXPECT_EQ(checkpoint.name(), "checkpoints/prompt");
  EXPECT_EQ(checkpoint.position(), 20u);
  EXPECT_GT(checkpoint.state_bytes(), 0u);
  EXPECT_EQ(checkpoint.labels().at("kind"), "system");
  EXPECT_EQ(checkpoint.uid().size(), 32u);
  const std::vector<float> logits = LogitsAfter(session_);

  v1::CreateSessionRequest create;
  create.set_from_checkpoint(checkpoint.name());
  create.set_session_id("made");
  create.mutable_session()->mutable_ttl()->set_seconds(90);
  v1::Session made;
  ASSERT_THAT(Create(create, made), IsOk());
  EXPECT_EQ(made.name(), "sessions/made");
  EXPECT_EQ(made.position(), 20u);
  EXPECT_EQ(made.ttl().seconds(), 90);
  EXPECT_TRUE(made.labels().empty());
  EXPECT_EQ(LogitsAfter(made.name()), logits);

  v1::RewindSessionRequest rewind;
  rewind.set_name(made.name());
  rewind.set_checkpoint(checkpoint.name());
  Context context;
  ASSERT_THAT(server_.sessions().RewindSession(&context, rewind, &made),
              IsOk());
  EXPECT_EQ(made.position(), 20u);
  EXPECT_EQ(LogitsAfter(made.name()), logits);
}

// Prompts go by pieces of 64 tokens.
TEST_F(CheckpointTest, APromptThatIsSentAgainIsNotComputedAgain) {
  const std::vector<int32_t> prompt = SomeTokens(150, 2);
  const auto generate = [&](const std::string& session) {
    v1::GenerateRequest request;
    request.set_session(session);
    request.mutable_tokens()->mutable_ids()->Add(prompt.begin(), prompt.end());
    request.set_max_tokens(4);
    request.mutable_sampling()->set_seed(7);
    request.set_ignore_eos(true);
    request.set_reuse_prefix(true);
    Context context;
    const auto reader = server_.generation().Generate(&context, request);
    v1::GenerateResponse response;
    std::vector<int32_t> drawn;
    v1::GenerateResponse::Usage usage;
    while (reader->Read(&response)) {
      for (const auto& token : response.tokens())
        drawn.push_back(token.token());
      usage = response.usage();
    }
    EXPECT_THAT(reader->Finish(), IsOk());
    return std::pair(drawn, usage);
  };
  const auto [drawn, first] = generate(server_.CreateSession());
  EXPECT_EQ(first.prefix_reuse(), v1::PREFIX_NOT_KEPT);
  EXPECT_EQ(first.reused_tokens(), 0u);
  const auto [again, second] = generate(server_.CreateSession());
  EXPECT_EQ(second.prefix_reuse(), v1::PREFIX_REUSED);
  EXPECT_EQ(second.reused_tokens(), 128u);
  EXPECT_EQ(second.prompt_tokens(), 150u);
  EXPECT_EQ(again, drawn);
  EXPECT_EQ(generate(session_).second.prefix_reuse(),
            v1::PREFIX_SESSION_NOT_NEW);

  v1::CreateSessionRequest create;
  create.mutable_reuse_prefix()->mutable_ids()->Add(prompt.begin(),
                                                    prompt.end());
  v1::Session made;
  ASSERT_THAT(Create(create, made), IsOk());
  EXPECT_EQ(made.position(), 128u);
  EXPECT_EQ(made.prefix_reuse(), v1::PREFIX_REUSED);
  create.mutable_reuse_prefix()->set_ids(3, -1);
  EXPECT_THAT(Create(create, made), HasReason(ErrorReason::kTokenOutOfRange));
  create.set_from_checkpoint("checkpoints/a");
  EXPECT_THAT(Create(create, made), IsAboutField("reuse_prefix"));

  Context context;
  v1::ListCheckpointsResponse page;
  ASSERT_THAT(server_.sessions().ListCheckpoints(&context, {}, &page), IsOk());
  EXPECT_EQ(page.checkpoints_size(), 0);
}

TEST_F(CheckpointTest, AreListedApart) {
  v1::CreateCheckpointRequest keep;
  keep.set_session(session_);
  v1::Checkpoint checkpoint;
  for (int i = 0; i < 5; ++i) {
    keep.set_checkpoint_id(absl::StrCat("c", i));
    ASSERT_THAT(Keep(keep, checkpoint), IsOk());
  }
  v1::ListCheckpointsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    Context context;
    v1::ListCheckpointsResponse page;
    ASSERT_THAT(server_.sessions().ListCheckpoints(&context, request, &page),
                IsOk());
    for (const auto& listed : page.checkpoints())
      names.push_back(listed.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, testing::ElementsAre("checkpoints/c0", "checkpoints/c1",
                                          "checkpoints/c2", "checkpoints/c3",
                                          "checkpoints/c4"));
  Context context;
  v1::ListSessionsResponse sessions;
  ASSERT_THAT(server_.sessions().ListSessions(&context, {}, &sessions), IsOk());
  ASSERT_EQ(sessions.sessions_size(), 1);
  EXPECT_EQ(sessions.sessions(0).name(), session_);
}

TEST_F(CheckpointTest, WrongRequestsAreRefused) {
  v1::CreateCheckpointRequest keep;
  v1::Checkpoint checkpoint;
  EXPECT_THAT(Keep(keep, checkpoint), IsAboutField("session"));
  keep.set_session("sessions/none");
  EXPECT_THAT(Keep(keep, checkpoint), HasReason(ErrorReason::kSessionNotFound));
  keep.set_session(session_);
  keep.set_checkpoint_id("!x");
  EXPECT_THAT(Keep(keep, checkpoint), IsAboutField("checkpoint_id"));
  keep.clear_checkpoint_id();
  keep.set_expected_position(3);
  EXPECT_THAT(Keep(keep, checkpoint),
              HasReason(ErrorReason::kPositionMismatch));
  keep.clear_expected_position();
  ASSERT_THAT(Keep(keep, checkpoint), IsOk());
  // It is no session, whatever it is called.
  v1::StepResponse response;
  Context context;
  EXPECT_THAT(
      server_.generation().Step(
          &context, StepOf(absl::StrCat("sessions/!", checkpoint.name()), {1}),
          &response),
      IsAboutField("session"));
  v1::CreateSessionRequest create;
  v1::Session made;
  create.set_from_checkpoint("prompt");
  EXPECT_THAT(Create(create, made), IsAboutField("from_checkpoint"));
  create.set_from_checkpoint("checkpoints/none");
  EXPECT_THAT(Create(create, made),
              HasReason(ErrorReason::kCheckpointNotFound));
  EXPECT_THAT(Delete("none"), IsAboutField("name"));
  EXPECT_THAT(Delete("checkpoints/none"),
              HasReason(ErrorReason::kCheckpointNotFound));
  EXPECT_THAT(Delete(checkpoint.name()), IsOk());
  EXPECT_THAT(Delete(checkpoint.name()),
              HasReason(ErrorReason::kCheckpointNotFound));
}

}  // namespace
}  // namespace steadystate::checkpoint_test
