// Goal: whatever a network loses and repeats, each step is carried out once.
// Method: between clients and a real server stands a proxy that drops every
// tenth answer and sends every tenth request twice, at once or one after the
// other; clients repeat what was not answered. All that they hear, and the
// state of every session in the end, is compared with a run without faults.
//
// STEADYSTATE_FAULTY_STEPS says how many steps there are, 3,000 if nothing
// does.
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "server/base/mutex.h"
#include "tests/server/rpc/open_server.h"
#include "tests/server/rpc/wire_error.h"
#include "tests/testing/environment_number.h"

namespace steadystate::faulty_network_test {
namespace {

constexpr size_t kSessions = 8;

size_t Steps() {
  return NumberFromEnvironment("STEADYSTATE_FAULTY_STEPS", 3000);
}

// Passes unary Steps on to a server, and some of them twice; keeps some of the
// answers to itself. Thread-safe.
class FaultyProxy final : public v1::GenerationService::Service {
 public:
  FaultyProxy(OpenServer& server, uint32_t seed)
      : server_(server), random_(seed) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(this);
    proxy_ = builder.BuildAndStart();
    stub_ = v1::GenerationService::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }

  v1::GenerationService::Stub& stub() { return *stub_; }

  grpc::Status Step(grpc::ServerContext* /*context*/,
                    const v1::StepRequest* request,
                    v1::StepResponse* response) override {
    const bool twice = Happens();
    const bool at_once = twice && Happens(2);
    std::thread other;
    if (at_once) other = std::thread([&] { PassOn(*request); });
    const grpc::Status status = PassOn(*request, response);
    if (at_once) other.join();
    if (twice && !at_once) PassOn(*request);
    if (!Happens()) return status;
    return {grpc::StatusCode::UNAVAILABLE, "the answer was lost"};
  }

 private:
  // Once in so many times.
  bool Happens(uint32_t times = 10) {
    const MutexLock lock(mutex_);
    return random_() % times == 0;
  }

  grpc::Status PassOn(const v1::StepRequest& request,
                      v1::StepResponse* response) {
    Context context;
    return server_.generation().Step(&context, request, response);
  }
  void PassOn(const v1::StepRequest& request) {
    v1::StepResponse ignored;
    EXPECT_THAT(PassOn(request, &ignored), IsOk());
  }

  OpenServer& server_;
  Mutex mutex_;
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> proxy_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

// What a client hears that goes through `steps` steps of a session, each
// absorbing the token that was drawn before, and in the end the logits.
struct Heard {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
};

v1::StepResponse StepUntilAnswered(v1::GenerationService::Stub& stub,
                                   const v1::StepRequest& request) {
  while (true) {
    Context context;
    v1::StepResponse response;
    const grpc::Status status = stub.Step(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) continue;
    EXPECT_THAT(status, IsOk());
    return response;
  }
}

Heard Converse(v1::GenerationService::Stub& stub, const std::string& session,
               uint32_t seed, size_t steps) {
  Heard heard;
  v1::StepRequest request;
  request.set_session(session);
  request.mutable_output()->mutable_sample()->set_seed(seed);
  uint64_t position = 0;
  int32_t token = static_cast<int32_t>(seed);
  for (size_t i = 0; i < steps; ++i) {
    request.mutable_tokens()->clear_ids();
    // Mostly one, and sometimes more than a batch may have of one session.
    for (size_t n = i % 50 == 0 ? 100 : 1; n > 0; --n) {
      request.mutable_tokens()->add_ids(token);
    }
    request.set_expected_position(position);
    request.set_request_id(absl::StrCat("step-", i));
    const v1::StepResponse response = StepUntilAnswered(stub, request);
    position += static_cast<uint64_t>(request.tokens().ids_size());
    EXPECT_EQ(response.position(), position);
    token = response.sampled_token();
    heard.tokens.push_back(token);
  }
  request.mutable_output()->set_logits(true);
  request.set_expected_position(position);
  request.set_request_id("last");
  const v1::StepResponse last = StepUntilAnswered(stub, request);
  heard.logits.assign(last.logits().begin(), last.logits().end());
  return heard;
}

std::vector<Heard> ConverseAll(OpenServer& server,
                               v1::GenerationService::Stub& stub) {
  const std::vector<std::string> sessions = server.CreateSessions(kSessions);
  std::vector<Heard> heard(kSessions);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kSessions; ++i) {
    clients.emplace_back([&, i] {
      heard[i] = Converse(stub, sessions[i], static_cast<uint32_t>(i),
                          Steps() / kSessions);
    });
  }
  for (std::thread& client : clients) client.join();
  return heard;
}

TEST(FaultyNetworkTest, EachStepIsCarriedOutOnce) {
  constexpr uint32_t kSeed = 17;
  OpenServer server;
  FaultyProxy proxy(server, kSeed);
  const std::vector<Heard> faulty = ConverseAll(server, proxy.stub());
  const double replays = server.MetricValue("steadystate_replays_total");
  EXPECT_GT(replays, static_cast<double>(Steps()) / 10);
  EXPECT_EQ(server.MetricValue("steadystate_position_mismatches_total"), 0);
  const std::vector<Heard> calm = ConverseAll(server, server.generation());
  EXPECT_EQ(server.MetricValue("steadystate_replays_total"), replays);
  for (size_t i = 0; i < kSessions; ++i) {
    EXPECT_EQ(faulty[i].tokens, calm[i].tokens) << i;
    EXPECT_EQ(faulty[i].logits, calm[i].logits) << i;
  }
}

}  // namespace
}  // namespace steadystate::faulty_network_test
