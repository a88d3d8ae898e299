#include "server/rpc/server.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpc/health/v1/health.pb.h"
#include "grpc/support/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/resource_quota.h"
#include "server/base/clock.h"
#include "server/base/logging.h"
#include "server/base/mutex.h"
#include "server/base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/generation_service.h"
#include "server/rpc/heartbeat_watch.h"
#include "server/rpc/library_logs.h"
#include "server/rpc/model_service.h"
#include "server/rpc/service_context.h"
#include "server/rpc/session_service.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/model.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"

namespace steadystate {
namespace {

// How long calls may take to end once everything in them has been cancelled,
// and how long gRPC may take after that.
constexpr absl::Duration kCancelledGrace = absl::Seconds(1);
constexpr absl::Duration kShutdownGrace = absl::Seconds(2);

// Last-resort bounds, far above what MAX_CONCURRENT_STREAMS and the outbound
// bounds of streams let happen. Threads are those of the reflection service,
// the only synchronous one.
constexpr size_t kQuotaBytes = size_t{1} << 30;
constexpr int kQuotaThreads = 16;

constexpr size_t kMinMessageBytes = size_t{64} << 10;
constexpr size_t kMaxMessageBytes = size_t{1} << 30;
constexpr size_t kMaxStepsPerMessage = size_t{1} << 20;

// Large messages of streams that have not been taken up wholly, of all streams
// together; where messages may be larger, a share of it has one of them.
constexpr size_t kInboundBytes = size_t{256} << 20;
constexpr size_t kInboundMessages = 16;

struct ChannelArgument {
  const char* key;
  int value;
};

std::vector<ChannelArgument> ChannelArguments(const ServerOptions& options) {
  return {
      {GRPC_ARG_MAX_CONCURRENT_STREAMS,
       static_cast<int>(options.max_concurrent_streams)},
      {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
       static_cast<int>(options.max_message_bytes)},
      {GRPC_ARG_MAX_SEND_MESSAGE_LENGTH,
       static_cast<int>(options.max_message_bytes)},
      {GRPC_ARG_MAX_METADATA_SIZE, 8 << 10},
      // Else a second server on the same port starts without an error.
      {GRPC_ARG_ALLOW_REUSEPORT, 0},
      // Finds peers that are gone without a word.
      {GRPC_ARG_KEEPALIVE_TIME_MS, 60'000},
      {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000},
      // Else clients with a keepalive of their own are sent away.
      {GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000},
      {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
      {GRPC_ARG_MAX_CONNECTION_IDLE_MS, 30 * 60'000},
      {GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, 10'000},
  };
}

// Decides about the reflection service for one server: linking its library
// alone would add it to all servers of the process.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool enabled) : enabled_(enabled) {}

  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>*
                         plugins) override {
    auto reflection =
        std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>();
    std::erase_if(*plugins, [&reflection](const auto& plugin) {
      return plugin->name() == reflection->name();
    });
    if (!enabled_) return;
    plugins->push_back(std::move(reflection));
    // gRPC's health service has no descriptor of its own to show.
    google::protobuf::LinkMessageReflection<
        grpc::health::v1::HealthCheckRequest>();
  }

 private:
  const bool enabled_;
};

// A deadline for gRPC, in steady time.
gpr_timespec In(absl::Duration duration) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(duration), GPR_TIMESPAN));
}

}  // namespace

absl::Status ValidateServerOptions(const ServerOptions& options) {
  if (options.max_message_bytes < kMinMessageBytes ||
      options.max_message_bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_message_bytes is ", options.max_message_bytes, "; it must be in [",
        kMinMessageBytes, ", ", kMaxMessageBytes, "]"));
  }
  if (options.max_steps_per_message < 1 ||
      options.max_steps_per_message > kMaxStepsPerMessage) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_steps_per_message is ", options.max_steps_per_message,
                     "; it must be in [1, ", kMaxStepsPerMessage, "]"));
  }
  if (options.max_concurrent_streams < 1 ||
      options.max_concurrent_streams > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_concurrent_streams is ", options.max_concurrent_streams,
        "; it must be in [1, ", INT32_MAX, "]"));
  }
  const size_t colon = options.listen.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(options.listen.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", options.listen,
                     "' is not an address to listen on: give HOST:PORT, for "
                     "instance 127.0.0.1:50051"));
  }
  return absl::OkStatus();
}

struct Server::State {
  State(const ServerOptions& options, Engine& engine, Metrics& metrics)
      : services{
            .engine = engine,
            .metrics = metrics,
            .converter = Converter(engine.model(), engine.options(),
                                   options.max_message_bytes),
            .max_message_bytes = options.max_message_bytes,
            .max_steps_per_message = options.max_steps_per_message,
            .inbound = InboundBudget(std::max(
                kInboundBytes, kInboundMessages * options.max_message_bytes)),
            .open_streams = {},
            .texts = {}} {}

  // Whether new work is taken at all; whether the compute thread moves. Health
  // is what both say.
  void SetAccepting(bool accepting) {
    const MutexLock lock(serving_mutex);
    is_accepting = accepting;
    TellServing();
  }
  void SetAlive(bool alive) {
    const MutexLock lock(serving_mutex);
    is_alive = alive;
    TellServing();
  }

  void TellServing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(serving_mutex) {
    const bool serving = is_accepting && is_alive;
    grpc::HealthCheckServiceInterface& health =
        *server->GetHealthCheckService();
    for (const char* name : {v1::GenerationService::service_full_name(),
                             v1::ModelService::service_full_name(),
                             v1::SessionService::service_full_name()}) {
      health.SetServingStatus(name, serving);
    }
    health.SetServingStatus("", serving);
    services.metrics.SetReady(serving);
  }

  ServiceContext services;
  SessionService session_service{services};
  GenerationService generation_service{services};
  ModelService model_service{services};
  int port = 0;
  std::unique_ptr<grpc::Server> server;
  Mutex serving_mutex;
  bool is_accepting ABSL_GUARDED_BY(serving_mutex) = false;
  bool is_alive ABSL_GUARDED_BY(serving_mutex) = true;

  Mutex mutex;
  CondVar ended_changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  std::optional<HeartbeatWatch> watch;  // last: it uses the above
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, Engine& engine, Metrics& metrics) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateServerOptions(options));
  LogWhatLibrariesSay();
  grpc::EnableDefaultHealthCheckService(true);

  auto state = std::make_shared<State>(options, engine, metrics);
  grpc::ServerBuilder builder;
  std::vector<std::string> arguments;
  for (const ChannelArgument& argument : ChannelArguments(options)) {
    builder.AddChannelArgument(argument.key, argument.value);
    arguments.push_back(absl::StrCat(argument.key, "=", argument.value));
  }
  // Compressed messages would be unpacked before their size is checked.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  grpc::ResourceQuota quota("steadystate");
  quota.Resize(kQuotaBytes).SetMaxThreads(kQuotaThreads);
  builder.SetResourceQuota(quota);
  builder.SetOption(std::make_unique<ReflectionOption>(options.reflection));
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(),
                           &state->port);
  builder.RegisterService(&state->session_service);
  builder.RegisterService(&state->generation_service);
  builder.RegisterService(&state->model_service);
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options.listen,
                     ": the address is taken or not one of this machine"));
  }
  state->SetAccepting(true);
  state->watch.emplace(engine, metrics, [&target = *state](bool alive) {
    target.SetAlive(alive);
  });
  LogInfo("grpc server started",
          {{"listen", options.listen},
           {"port", state->port},
           {"reflection", options.reflection ? "true" : "false"},
           {"resource_quota_bytes", kQuotaBytes},
           {"resource_quota_threads", kQuotaThreads},
           {"compression", "none"},
           {"channel_arguments", absl::StrJoin(arguments, ",")}});
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::shared_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  // The state may live on with a call that does not end, the engine does not.
  state_->watch->Stop();
  const MutexLock lock(state_->mutex);
  if (!state_->ended) state_->server->Shutdown(In(absl::ZeroDuration()));
}

int Server::port() const { return state_->port; }

void Server::AnnounceShutdown(absl::Duration lag) {
  State& state = *state_;
  state.SetAccepting(false);
  if (lag > absl::ZeroDuration()) {
    LogInfo("serving until the drain lag is over",
            {{"drain_lag", absl::FormatDuration(lag)}});
  }
  const Clock& clock = Clock::Real();
  const SteadyTime end = clock.Now() + lag;
  const MutexLock lock(state.mutex);
  for (absl::Duration left = lag; left > absl::ZeroDuration();
       left = end - clock.Now()) {
    state.ended_changed.WaitFor(state.mutex, absl::ToChronoNanoseconds(left));
  }
}

absl::Status Server::Shutdown(absl::Duration drain_timeout) {
  State& state = *state_;
  const Clock& clock = Clock::Real();
  const SteadyTime start = clock.Now();
  state.SetAccepting(false);
  state.services.engine.BeginDrain();
  state.services.texts.Drain();
  state.services.open_streams.Drain();
  if (!state.services.engine.WaitIdle(drain_timeout)) {
    LogWarning("requests did not end in time and are cancelled",
               {{"drain_timeout", absl::FormatDuration(drain_timeout)}});
    state.services.engine.AbortRequests();
    state.services.engine.WaitIdle(kCancelledGrace);
  }
  const SteadyTime give_up = clock.Now() + kCancelledGrace + kShutdownGrace;
  std::thread([state = state_] {
    state->server->Shutdown(In(kCancelledGrace));
    const MutexLock lock(state->mutex);
    state->ended = true;
    state->ended_changed.SignalAll();
  }).detach();
  const MutexLock lock(state.mutex);
  while (!state.ended) {
    const absl::Duration left = give_up - clock.Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError("calls did not end");
    }
    state.ended_changed.WaitFor(state.mutex, absl::ToChronoNanoseconds(left));
  }
  LogInfo("grpc server stopped",
          {{"after", absl::FormatDuration(clock.Now() - start)}});
  return absl::OkStatus();
}

}  // namespace steadystate
