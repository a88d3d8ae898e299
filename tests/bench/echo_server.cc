// A server that answers each step of StreamStep at once and computes nothing:
// what gRPC takes by itself, for `steadystate-bench serve --server`. Speaks as
// much of the API as the tester needs, through the same callbacks as the real
// server, and ignores all flags.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/grpcpp.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/model.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"

namespace steadystate::bench {
namespace {

grpc::ServerUnaryReactor* Finished(grpc::CallbackServerContext& context) {
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

// One stream: reads a message, answers it, and reads the next when that has
// been written. Owns itself until OnDone.
class EchoStream final
    : public grpc::ServerBidiReactor<v1::StreamStepRequest,
                                     v1::StreamStepResponse> {
 public:
  EchoStream() { StartRead(&request_); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    response_.Clear();
    for (const auto& request : request_.requests()) Answer(request);
    StartWrite(&response_);
  }
  void OnWriteDone(bool) override { StartRead(&request_); }
  void OnDone() override { delete this; }

 private:
  void Answer(const v1::StreamStepRequest::Request& request) {
    const v1::StepRequest& step = request.step();
    v1::StreamStepResponse::Result& result = *response_.add_results();
    result.set_request_id(request.request_id());
    result.set_session(step.session());
    result.mutable_step()->set_session(step.session());
    result.mutable_step()->set_position(
        step.expected_position() +
        static_cast<uint64_t>(step.tokens().ids_size()));
    result.mutable_step()->set_sampled_token(0);
  }

  v1::StreamStepRequest request_;
  v1::StreamStepResponse response_;
};

class Generation final : public v1::GenerationService::CallbackService {
  grpc::ServerBidiReactor<v1::StreamStepRequest, v1::StreamStepResponse>*
  StreamStep(grpc::CallbackServerContext*) override {
    return new EchoStream;
  }
};

class Models final : public v1::ModelService::CallbackService {
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context, const v1::ListModelsRequest*,
      v1::ListModelsResponse* response) override {
    Describe(*response->add_models());
    return Finished(*context);
  }
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest*,
                                     v1::Model* response) override {
    Describe(*response);
    return Finished(*context);
  }

  static void Describe(v1::Model& model) {
    model.set_name("models/echo");
    model.set_vocab_size(16);
  }
};

class Sessions final : public v1::SessionService::CallbackService {
  grpc::ServerUnaryReactor* CreateSession(grpc::CallbackServerContext* context,
                                          const v1::CreateSessionRequest*,
                                          v1::Session* response) override {
    response->set_name(absl::StrCat("sessions/echo-", created_++));
    return Finished(*context);
  }
  grpc::ServerUnaryReactor* DeleteSession(grpc::CallbackServerContext* context,
                                          const v1::DeleteSessionRequest*,
                                          google::protobuf::Empty*) override {
    return Finished(*context);
  }

  std::atomic<uint64_t> created_{0};
};

int Run() {
  Generation generation;
  Models models;
  Sessions sessions;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                           &port);
  builder.RegisterService(&generation);
  builder.RegisterService(&models);
  builder.RegisterService(&sessions);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("listening grpc=127.0.0.1:%d metrics=none\n", port);
  std::fflush(stdout);
  server->Wait();
  return 0;
}

}  // namespace
}  // namespace steadystate::bench

// The real server's flags are taken and ignored, so that it can stand in.
int main(int argc, char** argv) {
  if (argc == 2 && absl::string_view(argv[1]) == "--help") {
    std::puts(
        "Answers steps and computes nothing; runs as steadystate-bench "
        "serve --server, ignores flags.");
    return 0;
  }
  // As the real server has it: see server/main.cc.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  return steadystate::bench::Run();
}
