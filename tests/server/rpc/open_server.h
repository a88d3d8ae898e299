#ifndef STEADYSTATE_TESTS_SERVER_RPC_OPEN_SERVER_H_
#define STEADYSTATE_TESTS_SERVER_RPC_OPEN_SERVER_H_

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/grpcpp.h"
#include "server/base/clock.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"
#include "server/model/model.h"
#include "server/rpc/server.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/model.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"
#include "tests/testing/tiny_model.h"

namespace steadystate {

struct OpenServerOptions {
  TinyModelOptions model;
  // If not null, the checkpoint that is served instead.
  const char* checkpoint = nullptr;
  EngineOptions engine;
  ServerOptions server;
  const Clock* clock = &Clock::Real();
  // If not 0, the memory budget is that of so many sessions.
  size_t session_budget = 0;
};

// A real server on a tiny model and a free port, with a client's stubs.
class OpenServer {
 public:
  explicit OpenServer(const OpenServerOptions& options = {});
  ~OpenServer();

  v1::SessionService::Stub& sessions() { return *sessions_; }
  v1::GenerationService::Stub& generation() { return *generation_; }
  v1::ModelService::Stub& models() { return *models_; }
  std::shared_ptr<grpc::Channel> channel() { return channel_; }
  // A connection of its own.
  std::shared_ptr<grpc::Channel> NewChannel(
      const grpc::ChannelArguments& arguments = {});

  const Model& model() const { return *model_; }
  Engine& engine() { return *engine_; }
  Server& server() { return *server_; }
  // Of a session, as GetModel tells it.
  uint64_t session_bytes();

  // The names of new sessions.
  std::string CreateSession();
  std::vector<std::string> CreateSessions(size_t count);
  uint64_t PositionOf(const std::string& session);
  // Waits until the session is in `state`; expects that this comes to pass.
  v1::Session WaitForState(const std::string& session,
                           v1::Session::State state);
  // The answer of a unary step.
  v1::StepResponse Step(const v1::StepRequest& request);

  // The value of a series, its label "model" left out,
  // "steadystate_x_total{method=\"y\"}"; -1 if absent.
  double MetricValue(absl::string_view series) const;
  // Waits until it is `value`; expects that this comes to pass.
  void WaitForMetric(absl::string_view series, double value) const;

  // The same; and answers have neither been made nor sent for a while.
  void WaitUntilStill(absl::string_view series, double value,
                      absl::Duration still = absl::Milliseconds(200)) const;

  // Waits until it is more than 0; expects that this comes to pass.
  void WaitForSome(absl::string_view series) const {
    WaitForEither(series, series);
  }
  // Returns when one of two counters has counted something, with a failure
  // after a minute.
  void WaitForEither(absl::string_view one, absl::string_view other) const;

 private:
  TinyModel checkpoint_;
  std::shared_ptr<const Model> model_;
  Metrics metrics_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::ModelService::Stub> models_;
};

// Holds the engine's compute thread inside a callback until released: what
// arrives meanwhile waits.
class EngineHold {
 public:
  explicit EngineHold(OpenServer& server);
  ~EngineHold() { Release(); }
  EngineHold(const EngineHold&) = delete;
  EngineHold& operator=(const EngineHold&) = delete;
  void Release();

 private:
  // The compute thread may be waking up when the holder goes.
  std::shared_ptr<std::promise<void>> released_ =
      std::make_shared<std::promise<void>>();
  bool holds_ = true;
};

// A context that gives up long before a test that hangs would be noticed.
class Context : public grpc::ClientContext {
 public:
  explicit Context(absl::Duration timeout = absl::Seconds(60)) {
    set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  }
};

// Requests in one line.
v1::StepRequest StepOf(const std::string& session,
                       const std::vector<int32_t>& tokens);
// A step that answers with logits.
v1::StepRequest LogitsStepOf(const std::string& session,
                             const std::vector<int32_t>& tokens);

// Bytes that look random but are the same each time, below `vocab_size`.
std::vector<int32_t> SomeTokens(size_t count, uint32_t seed,
                                size_t vocab_size = 256);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_SERVER_RPC_OPEN_SERVER_H_
