// Goal: sessions outlive a server that ends in order, clients that never close
// included, and go on in the next one as if nothing had been; so do logged ones
// if it is killed. Of others what it had stored is there, and what was deleted
// is not. Method: the real binary on
// a tiny model, started again on the same store.
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"
#include "tests/client/process.h"
#include "tests/testing/temp_directory.h"
#include "tests/testing/tiny_model.h"

namespace steadystate {
namespace {

using testing::HasSubstr;

constexpr char kServer[] = STEADYSTATE_BIN_DIR "/steadystate-server";

class RestartE2eTest : public testing::Test {
 protected:
  std::vector<std::string> Command(const std::vector<std::string>& flags) {
    std::vector<std::string> command = {kServer,
                                        "--model",
                                        model_.path(),
                                        "--listen",
                                        "127.0.0.1:0",
                                        "--metrics_listen",
                                        "127.0.0.1:0",
                                        "--threads",
                                        "1",
                                        "--store",
                                        directory_.path() + "/store"};
    command.insert(command.end(), flags.begin(), flags.end());
    return command;
  }

  // Starts the server and waits until it is ready.
  void Start(const std::vector<std::string>& flags = {}) {
    server_ =
        std::make_unique<Process>(Command(flags), directory_.path() + "/log");
    const std::vector<std::string> words =
        absl::StrSplit(server_->ReadLine(), absl::ByAnyChar(" ="));
    ASSERT_EQ(words.size(), 5u) << Log();
    channel_ =
        grpc::CreateChannel(words[2], grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel_);
    generation_ = v1::GenerationService::NewStub(channel_);
  }
  // REQUIRES: it was started without flags, or they matter no more.
  void Restart(int signal) {
    server_->Signal(signal);
    if (signal == SIGTERM) {
      EXPECT_EQ(server_->Wait(), 0) << Log();
    } else {
      server_->Wait();
    }
    Start();
  }

  std::string Create(const std::string& id) {
    grpc::ClientContext context;
    v1::CreateSessionRequest request;
    request.set_session_id(id);
    v1::Session session;
    const grpc::Status status =
        sessions_->CreateSession(&context, request, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session.name();
  }
  v1::Session Get(const std::string& name) {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    request.set_name(name);
    v1::Session session;
    const grpc::Status status =
        sessions_->GetSession(&context, request, &session);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return session;
  }
  std::string Generate(const std::string& session, const std::string& prompt,
                       uint64_t tokens) {
    grpc::ClientContext context;
    v1::GenerateRequest request;
    request.set_session(session);
    request.set_text(prompt);
    request.set_max_tokens(tokens);
    request.set_ignore_eos(true);
    request.mutable_sampling()->set_seed(7);
    request.mutable_sampling()->set_temperature(1);
    const auto reader = generation_->Generate(&context, request);
    v1::GenerateResponse response;
    std::string text;
    while (reader->Read(&response)) text += response.text_delta();
    EXPECT_TRUE(reader->Finish().ok());
    return text;
  }
  size_t Count() {
    grpc::ClientContext context;
    v1::ListSessionsResponse response;
    EXPECT_TRUE(sessions_->ListSessions(&context, {}, &response).ok());
    return static_cast<size_t>(response.sessions_size());
  }

  std::string Log() const { return ReadWholeFile(directory_.path() + "/log"); }

  const TinyModel model_;
  const TempDirectory directory_;
  std::unique_ptr<Process> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
};

TEST_F(RestartE2eTest, SessionsOutliveAServerThatEndsInOrder) {
  Start();
  const std::string whole = Create("whole");
  const std::string parts = Create("parts");
  const std::string fresh = Create("fresh");
  const std::string expected = Generate(whole, "once", 40);
  std::string text = Generate(parts, "once", 13);
  const v1::Session before = Get(parts);
  // A client that never closes its stream.
  grpc::ClientContext context;
  const auto stream = generation_->StreamStep(&context);
  Restart(SIGTERM);
  const v1::Session after = Get(parts);
  EXPECT_EQ(after.uid(), before.uid());
  EXPECT_EQ(after.position(), before.position());
  EXPECT_EQ(after.state(), v1::Session::HIBERNATED);
  text += Generate(parts, "", 27);
  EXPECT_EQ(text, expected);
  EXPECT_EQ(Get(fresh).position(), 0u);
  EXPECT_EQ(Count(), 3u);
}

TEST_F(RestartE2eTest, WhatWasAnsweredOutlivesAKill) {
  Start();
  const std::string whole = Create("whole");
  const std::string parts = Create("parts");
  const std::string fresh = Create("fresh");
  const std::string expected = Generate(whole, "once upon a time", 60);
  std::string text = Generate(parts, "once upon a time", 13);
  while (text.size() < expected.size()) {
    Restart(SIGKILL);
    EXPECT_EQ(Get(parts).state(), v1::Session::HIBERNATED);
    EXPECT_EQ(Get(parts).durability(), v1::Session::LOG);
    const std::string more = Generate(parts, "", 10);
    ASSERT_FALSE(more.empty());
    text += more;
  }
  EXPECT_EQ(text.substr(0, expected.size()), expected);
  EXPECT_EQ(Count(), 3u);
  EXPECT_EQ(Get(fresh).position(), 0u);
}

TEST_F(RestartE2eTest, WhatAKilledServerHadStoredIsThere) {
  Start({"--hibernate_after", "1s", "--durability", "shutdown"});
  const std::string session = Create("stored");
  const std::string gone = Create("gone");
  Generate(session, "once", 5);
  Generate(gone, "once", 5);
  while (Get(session).state() != v1::Session::HIBERNATED) {
  }
  v1::HibernateSessionRequest hibernate;
  hibernate.set_name(gone);
  grpc::ClientContext asking;
  google::protobuf::Empty nothing;
  ASSERT_TRUE(sessions_->HibernateSession(&asking, hibernate, &nothing).ok());
  EXPECT_EQ(Get(gone).state(), v1::Session::HIBERNATED);
  grpc::ClientContext context;
  v1::DeleteSessionRequest request;
  request.set_name(gone);
  google::protobuf::Empty empty;
  ASSERT_TRUE(sessions_->DeleteSession(&context, request, &empty).ok());
  const uint64_t position = Get(session).position();
  Restart(SIGKILL);
  EXPECT_EQ(Count(), 1u);
  EXPECT_EQ(Get(session).position(), position);
  Generate(session, "", 5);
}

TEST_F(RestartE2eTest, AStoreThatCannotBeUsedIsToldAtTheStart) {
  Start();
  Process other(Command({}), directory_.path() + "/other-log");
  EXPECT_EQ(other.Wait(), 1);
  EXPECT_THAT(ReadWholeFile(directory_.path() + "/other-log"),
              HasSubstr("in use by another server"));
  Process wrong(Command({"--durability", "forever"}),
                directory_.path() + "/wrong-log");
  EXPECT_EQ(wrong.Wait(), 2);
  EXPECT_THAT(ReadWholeFile(directory_.path() + "/wrong-log"),
              HasSubstr("--durability"));
}

}  // namespace
}  // namespace steadystate
