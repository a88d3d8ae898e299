#include "tests/e2e/stored_server.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

v1::GenerateRequest RequestFor(const std::string& session,
                               const std::string& prompt, uint64_t tokens) {
  v1::GenerateRequest request;
  request.set_session(session);
  request.set_text(prompt);
  request.set_max_tokens(tokens);
  request.set_ignore_eos(true);
  request.mutable_sampling()->set_seed(7);
  request.mutable_sampling()->set_temperature(1);
  return request;
}

}  // namespace

StoredServer::StoredServer(const std::string& store)
    : store_(store.empty() ? directory_.path() + "/store" : store) {}

std::vector<std::string> StoredServer::Command(
    const std::vector<std::string>& flags) const {
  std::vector<std::string> command = {STEADYSTATE_BIN_DIR "/steadystate-server",
                                      "--model",
                                      model_.path(),
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--metrics_listen",
                                      "127.0.0.1:0",
                                      "--threads",
                                      "1",
                                      "--store",
                                      store_};
  command.insert(command.end(), flags.begin(), flags.end());
  return command;
}

void StoredServer::Start(const std::vector<std::string>& flags) {
  server_ =
      std::make_unique<Process>(Command(flags), directory_.path() + "/log");
  const std::vector<std::string> words =
      absl::StrSplit(server_->ReadLine(), absl::ByAnyChar(" ="));
  ASSERT_EQ(words.size(), 5u) << Log();
  const auto channel =
      grpc::CreateChannel(words[2], grpc::InsecureChannelCredentials());
  metrics_address_ = words[4];
  sessions_ = v1::SessionService::NewStub(channel);
  generation_ = v1::GenerationService::NewStub(channel);
}

void StoredServer::End() {
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << Log();
}

void StoredServer::Restart(int signal, const std::vector<std::string>& flags) {
  if (signal == SIGTERM) {
    End();
  } else {
    server_->Signal(signal);
    server_->Wait();
  }
  Start(flags);
}

std::string StoredServer::Create(const std::string& id,
                                 v1::Session::Durability durability) {
  grpc::ClientContext context;
  v1::CreateSessionRequest request;
  request.set_session_id(id);
  request.mutable_session()->set_durability(durability);
  v1::Session session;
  const grpc::Status status =
      sessions_->CreateSession(&context, request, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session.name();
}

v1::Session StoredServer::Get(const std::string& name) {
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  request.set_name(name);
  v1::Session session;
  const grpc::Status status =
      sessions_->GetSession(&context, request, &session);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return session;
}

size_t StoredServer::Count() {
  grpc::ClientContext context;
  v1::ListSessionsResponse response;
  EXPECT_TRUE(sessions_->ListSessions(&context, {}, &response).ok());
  return static_cast<size_t>(response.sessions_size());
}

std::string StoredServer::Generate(const std::string& session,
                                   const std::string& prompt, uint64_t tokens) {
  std::string text;
  const grpc::Status status =
      Generate(RequestFor(session, prompt, tokens), text);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return text;
}

grpc::Status StoredServer::GenerateOnce(const std::string& session,
                                        uint64_t position,
                                        const std::string& prompt,
                                        uint64_t tokens, std::string& text) {
  v1::GenerateRequest request = RequestFor(session, prompt, tokens);
  request.set_request_id("once");
  request.set_expected_position(position);
  return Generate(request, text);
}

grpc::Status StoredServer::Generate(const v1::GenerateRequest& request,
                                    std::string& text) {
  grpc::ClientContext context;
  const auto reader = generation_->Generate(&context, request);
  v1::GenerateResponse response;
  text.clear();
  while (reader->Read(&response)) text += response.text_delta();
  return reader->Finish();
}

}  // namespace steadystate
