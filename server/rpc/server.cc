#include "server/rpc/server.h"

#include <algorithm>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/grpc.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpc/support/log.h"
#include "grpc/support/time.h"
#include "grpcpp/grpcpp.h"
#include "server/base/clock.h"
#include "server/base/listener.h"
#include "server/base/logging.h"
#include "server/base/mutex.h"
#include "server/base/process.h"
#include "server/base/status_macros.h"
#include "server/rpc/acceptor.h"
#include "server/rpc/connection_guard.h"
#include "server/rpc/connection_table.h"
#include "server/rpc/convert.h"
#include "server/rpc/generation_service.h"
#include "server/rpc/health_service.h"
#include "server/rpc/inference/inference_service.h"
#include "server/rpc/model_service.h"
#include "server/rpc/reflection_service.h"
#include "server/rpc/service_context.h"
#include "server/rpc/session_service.h"
#include "server/rpc/standstill_watch.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/model.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"

namespace steadystate {
namespace {

LogLimiter& GrpcLimiter() {
  static auto& limiter = *new LogLimiter;
  return limiter;
}

LogLimiter& ProtobufLimiter() {
  static auto& limiter = *new LogLimiter;
  return limiter;
}

// gRPC's own log lines name its source files; ours do not.
void LogFromGrpc(gpr_log_func_args* args) {
  LogLevel level = LogLevel::kDebug;
  if (args->severity == GPR_LOG_SEVERITY_INFO) level = LogLevel::kInfo;
  if (args->severity == GPR_LOG_SEVERITY_ERROR) level = LogLevel::kWarning;
  LogLimited(GrpcLimiter(), level, "grpc", {{"text", args->message}});
}

// What Protobuf calls an error is a client's mistake as a rule.
void LogFromProtobuf(google::protobuf::LogLevel severity, const char*, int,
                     const std::string& text) {
  LogLevel level = LogLevel::kWarning;
  if (severity == google::protobuf::LOGLEVEL_INFO) level = LogLevel::kInfo;
  if (severity == google::protobuf::LOGLEVEL_FATAL) level = LogLevel::kError;
  LogLimited(ProtobufLimiter(), level, "protobuf", {{"text", text}});
}

// What gRPC and Protobuf log goes to our log.
void LogWhatLibrariesSay() {
  gpr_set_log_function(&LogFromGrpc);
  google::protobuf::SetLogHandler(&LogFromProtobuf);
}

// How long calls may take to end once everything in them has been cancelled;
// how long gRPC may then take to write what it has begun with, before
// connections are cut off; and how long it may take to end since the first of
// these: for tens of thousands of calls, some 0.1 ms each.
constexpr absl::Duration kCancelledGrace = absl::Seconds(1);
constexpr absl::Duration kLastWritesGrace = absl::Milliseconds(500);
constexpr absl::Duration kShutdownGrace = absl::Seconds(5);

constexpr size_t kMinMessageBytes = size_t{64} << 10;
constexpr size_t kMaxMessageBytes = size_t{1} << 30;
constexpr size_t kMaxStepsPerMessage = size_t{1} << 20;

// Large messages of streams that have not been taken up wholly, of all streams
// together, and once more large requests that have not been read; where
// messages may be larger, a share of it has one of them.
constexpr size_t kInboundBytes = size_t{256} << 20;
constexpr size_t kInboundMessages = 16;

// A few answers of a few connections.
constexpr uint64_t kMinOutboundBytes = uint64_t{16} << 20;
constexpr uint64_t kMaxOutboundBytes = uint64_t{1} << 40;
// A connection may have an eighth of what is left for others.
constexpr uint64_t kOutboundParts = 8;

size_t InboundBytes(const ServerOptions& options) {
  return std::max(kInboundBytes, kInboundMessages * options.max_message_bytes);
}

TurnThreads::Report Reporter(Metrics& metrics, LongWork kind) {
  return [&metrics, kind](size_t waiting) {
    metrics.SetLongWorkWaiting(kind, waiting);
  };
}

// A quarter is for what each call has of its own.
uint64_t OwnOutboundBytes(const ServerOptions& options) {
  return options.max_outbound_bytes / 4;
}

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

// Well above what a client has reason for: it may cancel all of its calls at
// once, and again, and each of them may have a message on its way.
ConductLimits LimitsOfConduct(const ServerOptions& options) {
  ConductLimits limits;
  limits.open_calls = options.max_concurrent_streams;
  limits.resets = std::max<uint64_t>(4096, 2 * options.max_concurrent_streams);
  limits.bytes_per_call = options.max_message_bytes + (64 << 10);
  limits.unfinished = std::max(options.max_unfinished_bytes,
                               uint64_t{16} * options.max_message_bytes);
  return limits;
}

// A deadline for gRPC, in steady time.
gpr_timespec In(absl::Duration duration) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(duration), GPR_TIMESPAN));
}

// Keeps gRPC's library from being shut down with the last server. That would
// wait for a thread of it that polls for up to 10 s at a time, and does so once
// a peer has not read for a while.
void KeepLibrary() {
  static const bool kept = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(kept);
}

}  // namespace

absl::Status ValidateServerOptions(const ServerOptions& options) {
  if (options.max_message_bytes < kMinMessageBytes ||
      options.max_message_bytes > kMaxMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_message_bytes is ", options.max_message_bytes,
        "; it must be in [", kMinMessageBytes, ", ", kMaxMessageBytes, "]"));
  }
  if (options.max_steps_per_message < 1 ||
      options.max_steps_per_message > kMaxStepsPerMessage) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_steps_per_message is ", options.max_steps_per_message,
        "; it must be in [1, ", kMaxStepsPerMessage, "]"));
  }
  if (options.max_outbound_bytes < kMinOutboundBytes ||
      options.max_outbound_bytes > kMaxOutboundBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_outbound_bytes is ", options.max_outbound_bytes,
        "; it must be in [", kMinOutboundBytes, ", ", kMaxOutboundBytes, "]"));
  }
  if (options.max_concurrent_streams < 1 ||
      options.max_concurrent_streams > INT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_concurrent_streams is ", options.max_concurrent_streams,
        "; it must be in [1, ", INT32_MAX, "]"));
  }
  STEADYSTATE_RETURN_IF_ERROR(
      ResolveConnectionCaps(options.max_connections,
                            options.max_connections_per_peer,
                            HardDescriptorLimit())
          .status());
  return ParseHostPort(options.listen).status();
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
            .taken = {},
            .inbound = InboundBudget(InboundBytes(options)),
            .outbound = {FairShare(options.max_outbound_bytes -
                                       OwnOutboundBytes(options),
                                   0, kOutboundParts),
                         {.each = kOwnOutboundBytes,
                          .in_all = OwnOutboundBytes(options)},
                         metrics},
            .open_streams = {},
            .watchers = {engine.session_events(), metrics},
            .texts =
                TurnThreads(kTextBounds, Reporter(metrics, LongWork::kTexts)),
            .reading = TurnThreads(
                ReadingBounds(InboundBytes(options), options.max_message_bytes),
                Reporter(metrics, LongWork::kReading))} {}

  // Starts gRPC, without connections; `server` is null if that fails.
  void StartServing(const ServerOptions& options) {
    grpc::ServerBuilder builder;
    for (const ChannelArgument& argument : ChannelArguments(options)) {
      builder.AddChannelArgument(argument.key, argument.value);
    }
    // Compressed messages would be unpacked before their size is checked.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    // No quota of gRPC's: where one is used up it ends streams, whosever they
    // are, and 1.51 may crash. What clients make it hold is bounded by us.
    connections = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        grpc::InsecureServerCredentials());
    builder.RegisterService(&session_service);
    builder.RegisterService(&generation_service);
    builder.RegisterService(&model_service);
    builder.RegisterService(&inference_service);
    builder.RegisterService(&health_service);
    if (options.reflection) builder.RegisterService(&reflection_service);
    server = builder.BuildAndStart();
  }

  // After StartServing: the guard looks for the server that was started last.
  absl::Status StartAccepting(Listener listener, const ConnectionCaps& caps,
                              const ConductLimits& limits) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        acceptor, Acceptor::Start(
                      std::move(listener), caps, services.metrics,
                      [this](Descriptor socket, int listening) {
                        HandOver(std::move(socket), listening);
                      },
                      std::make_unique<ConnectionGuard>(limits, services.taken,
                                                        services.metrics)));
    return absl::OkStatus();
  }

  void HandOver(Descriptor socket, int listening) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters
        connection;
    connection.listener_fd = listening;
    connection.fd = socket.Release();
    connections->HandleNewConnection(&connection);
  }

  // Ends gRPC; calls that are left are cancelled after `grace`, connections
  // that are left after that are cut off. gRPC would never close one that came
  // while it ends: so none is accepted any more. Watches of health would
  // use up `grace`, and have heard the last by now.
  void Shutdown(absl::Duration grace) {
    health_service.EndWatches();
    const ConnectionCutter cutter(acceptor->Stop(), grace + kLastWritesGrace);
    server->Shutdown(In(grace));
  }

  ServiceContext services;
  StandstillWatch standstill{services.open_streams, services.engine.clock()};
  SessionService session_service{services};
  GenerationService generation_service{services};
  ModelService model_service{services};
  HealthService health_service{
      services,
      {InferenceService::kName, v1::GenerationService::service_full_name(),
       v1::ModelService::service_full_name(),
       v1::SessionService::service_full_name()}};
  ReflectionService reflection_service{
      services,
      {grpc::health::v1::Health::service_full_name(),
       grpc::reflection::v1alpha::ServerReflection::service_full_name(),
       InferenceService::kName, v1::GenerationService::service_full_name(),
       v1::ModelService::service_full_name(),
       v1::SessionService::service_full_name()}};
  InferenceService inference_service{
      services,
      [this] { return health_service.health() == ServerHealth::kServing; }};
  int port = 0;
  std::unique_ptr<grpc::Server> server;
  // Where connections are handed to gRPC.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> connections;
  std::unique_ptr<Acceptor> acceptor;

  Mutex mutex;
  CondVar ended_changed;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  std::optional<HeartbeatWatch> watch;  // last: it uses the above
};

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, Engine& engine, Metrics& metrics) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateServerOptions(options));
  STEADYSTATE_ASSIGN_OR_RETURN(Listener listener,
                               Bind(options.listen, AnyAddress::kBothFamilies));
  return Start(options, std::move(listener), engine, metrics);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(
    const ServerOptions& options, Listener listener, Engine& engine,
    Metrics& metrics) {
  STEADYSTATE_RETURN_IF_ERROR(ValidateServerOptions(options));
  LogWhatLibrariesSay();
  KeepLibrary();

  STEADYSTATE_ASSIGN_OR_RETURN(
      const ConnectionCaps caps,
      ResolveConnectionCaps(options.max_connections,
                            options.max_connections_per_peer,
                            DescriptorLimit()));
  STEADYSTATE_RETURN_IF_ERROR(StartListening(listener));
  auto state = std::make_shared<State>(options, engine, metrics);
  state->port = listener.port;
  state->StartServing(options);
  if (state->server == nullptr) {
    return absl::UnavailableError("gRPC does not start: its log says why");
  }
  STEADYSTATE_RETURN_IF_ERROR(state->StartAccepting(std::move(listener), caps,
                                                    LimitsOfConduct(options)));
  state->health_service.SetAccepting(true);
  state->watch.emplace(engine, metrics, [&target = *state](bool alive) {
    target.health_service.SetAlive(alive);
  });
  LogInfo("grpc server started",
          {{"listen", options.listen},
           {"port", state->port},
           {"reflection", options.reflection ? "true" : "false"},
           {"max_outbound_bytes", options.max_outbound_bytes},
           {"max_connections", caps.in_all},
           {"max_connections_per_peer", caps.per_peer}});
  if (IsLogged(LogLevel::kDebug)) {
    Log(LogLevel::kDebug, "grpc channel arguments",
        {{"compression", "none"},
         {"channel_arguments",
          absl::StrJoin(ChannelArguments(options), ",",
                        [](std::string* out, const ChannelArgument& argument) {
                          absl::StrAppend(out, argument.key, "=",
                                          argument.value);
                        })}});
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::shared_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  // The state may live on with a call that does not end, the engine does not.
  state_->watch->Stop();
  state_->services.watchers.Stop();
  const MutexLock lock(state_->mutex);
  if (!state_->ended) state_->Shutdown(absl::ZeroDuration());
}

int Server::port() const { return state_->port; }

ServerHealth Server::health() const { return state_->health_service.health(); }

void Server::AnnounceShutdown(absl::Duration lag) {
  State& state = *state_;
  state.health_service.SetAccepting(false);
  state.services.open_streams.GoAway(Clock::Real().Read().wall + lag);
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
  state.health_service.SetAccepting(false);
  state.services.engine.BeginDrain();
  state.services.reading.Drain();
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
    state->Shutdown(kCancelledGrace);
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
