#include "steadystate/client.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/mutex.h"
#include "google/protobuf/timestamp.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_callback.h"
#include "steadystate/address.h"
#include "steadystate/error.h"

namespace steadystate::client {

absl::Time RequestsUntil(const v1::GoingAway& going_away) {
  const google::protobuf::Timestamp& until = going_away.requests_until();
  return absl::FromUnixSeconds(until.seconds()) +
         absl::Nanoseconds(until.nanos());
}

namespace {

template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> CallUnary(
    Stub& stub,
    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                 Response*),
    const Request& request, const CallOptions& options) {
  Call call(options);
  Response response;
  absl::Status status =
      ToStatus((stub.*method)(call.context(), request, &response));
  if (!status.ok()) return status;
  return response;
}

// Reads a stream to its end, or until `on_message` returns an error.
template <typename Response>
absl::Status ReadAll(
    Call& call, grpc::ClientReader<Response>& reader,
    absl::FunctionRef<absl::Status(const Response&)> on_message) {
  absl::Status refused;
  Response response;
  while (refused.ok() && reader.Read(&response)) refused = on_message(response);
  if (refused.ok()) return ToStatus(reader.Finish());
  call.context()->TryCancel();
  while (reader.Read(&response)) continue;
  reader.Finish();
  return refused;
}

int Milliseconds(absl::Duration time) {
  return static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(time), INT_MAX));
}

// gRPC 1.51 looks at errno when it has done more than connect(). Where /sys is
// not mounted, the allocator's look at it then makes a connection that is under
// way seem to have failed, once in a process.
constexpr int kConnectAttempts = 2;

// Waits until the channel is connected, or until a first attempt has failed.
bool WaitForConnection(grpc::Channel& channel, gpr_timespec deadline) {
  grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE) return false;
    if (!channel.WaitForStateChange(state, deadline)) return false;
    state = channel.GetState(/*try_to_connect=*/true);
  }
  return true;
}

// How long a channel that cannot connect may take to say why.
constexpr absl::Duration kReasonTime = absl::Milliseconds(500);

// Why there is no connection, by what gRPC says of a call that needs one.
absl::Status NotConnected(const std::string& address,
                          const std::shared_ptr<grpc::Channel>& channel) {
  Call call({.timeout = kReasonTime});
  grpc::health::v1::HealthCheckResponse ignored;
  const std::string why = grpc::health::v1::Health::NewStub(channel)
                              ->Check(call.context(), {}, &ignored)
                              .error_message();
  if (absl::StrContains(why, "DNS resolution failed")) {
    return absl::UnavailableError(absl::StrCat(
        "the name in ", address,
        " is not known: give another address, such as ", kDefaultAddress));
  }
  if (absl::StrContains(why, "http1.x")) {
    return absl::UnavailableError(absl::StrCat(
        "what listens at ", address,
        " speaks HTTP/1, not gRPC, as the server's metrics port does: give its "
        "other port, which is 50051 unless it was started with --listen"));
  }
  return absl::UnavailableError(absl::StrCat(
      "no server answers at ", address,
      ": start steadystate-server there, or give another address"));
}

}  // namespace

absl::StatusOr<Client> Client::Connect(const std::string& address,
                                       const ClientOptions& options) {
  const auto place = ReadAddress(address);
  if (!place.ok()) return place.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy that is set for web pages is not meant for a server next door.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A client is a connection, also if there are several to one server.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS,
                   Milliseconds(options.keepalive_time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   Milliseconds(options.keepalive_timeout));
  // Else gRPC stops asking a server that has long said nothing.
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  const absl::Time end = absl::Now() + options.connect_timeout;
  const gpr_timespec deadline = DeadlineIn(options.connect_timeout);
  std::shared_ptr<grpc::Channel> channel;
  for (int attempt = 0; attempt < kConnectAttempts; ++attempt) {
    channel = grpc::CreateCustomChannel(
        *place, grpc::InsecureChannelCredentials(), arguments);
    if (WaitForConnection(*channel, deadline)) {
      return Client(*place, options, channel);
    }
  }
  if (absl::Now() < end) return NotConnected(*place, channel);
  return absl::UnavailableError(
      absl::StrCat("no server answered at ", *place, " within ",
                   absl::FormatDuration(options.connect_timeout),
                   ": give it more time, or another address"));
}

Client::Client(const std::string& address, const ClientOptions& options,
               const std::shared_ptr<grpc::Channel>& channel)
    : address_(address),
      options_(options),
      channel_(channel),
      sessions_(v1::SessionService::NewStub(channel)),
      generation_(v1::GenerationService::NewStub(channel)),
      models_(v1::ModelService::NewStub(channel)),
      health_(grpc::health::v1::Health::NewStub(channel)) {}

absl::StatusOr<v1::Session> Client::CreateSession(
    const v1::CreateSessionRequest& request, const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::CreateSession,
                   request, options);
}

absl::StatusOr<v1::Session> Client::GetSession(
    const v1::GetSessionRequest& request, const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::GetSession, request,
                   options);
}

absl::StatusOr<v1::ListSessionsResponse> Client::ListSessions(
    const v1::ListSessionsRequest& request, const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::ListSessions, request,
                   options);
}

absl::StatusOr<v1::ForkSessionResponse> Client::ForkSession(
    const v1::ForkSessionRequest& request, const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::ForkSession, request,
                   options);
}

absl::StatusOr<v1::Session> Client::UpdateSession(
    const v1::UpdateSessionRequest& request, const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::UpdateSession,
                   request, options);
}

absl::StatusOr<v1::Session> Client::RewindSession(
    const v1::RewindSessionRequest& request, const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::RewindSession,
                   request, options);
}

absl::StatusOr<v1::Checkpoint> Client::CreateCheckpoint(
    const v1::CreateCheckpointRequest& request,
    const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::CreateCheckpoint,
                   request, options);
}

absl::StatusOr<v1::ListCheckpointsResponse> Client::ListCheckpoints(
    const v1::ListCheckpointsRequest& request,
    const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::ListCheckpoints,
                   request, options);
}

absl::Status Client::DeleteCheckpoint(
    const v1::DeleteCheckpointRequest& request,
    const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::DeleteCheckpoint,
                   request, options)
      .status();
}

absl::Status Client::ExportSession(
    const v1::ExportSessionRequest& request,
    absl::FunctionRef<absl::Status(const v1::ExportSessionResponse&)>
        on_message,
    const CallOptions& options) const {
  Call call(options);
  const auto reader = sessions_->ExportSession(call.context(), request);
  return ReadAll(call, *reader, on_message);
}

absl::StatusOr<v1::Session> Client::ImportSession(
    const v1::ImportSessionRequest& request, absl::string_view snapshot,
    const CallOptions& options) const {
  // Any server takes messages of this size.
  constexpr size_t kChunkBytes = size_t{48} << 10;
  Call call(options);
  v1::Session session;
  const auto writer = sessions_->ImportSession(call.context(), &session);
  v1::ImportSessionRequest message = request;
  message.set_snapshot_bytes(snapshot.size());
  bool wanted = true;
  do {
    const absl::string_view chunk = snapshot.substr(0, kChunkBytes);
    snapshot.remove_prefix(chunk.size());
    message.set_chunk(chunk.data(), chunk.size());
    // False: the server has refused it.
    wanted = writer->Write(message);
    message.Clear();
  } while (wanted && !snapshot.empty());
  if (wanted) writer->WritesDone();
  absl::Status status = ToStatus(writer->Finish());
  if (!status.ok()) return status;
  return session;
}

absl::Status Client::HibernateSession(
    const v1::HibernateSessionRequest& request,
    const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::HibernateSession,
                   request, options)
      .status();
}

absl::Status Client::DeleteSession(const v1::DeleteSessionRequest& request,
                                   const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::DeleteSession,
                   request, options)
      .status();
}

absl::Status Client::WatchSessions(
    const v1::WatchSessionsRequest& request,
    absl::FunctionRef<absl::Status(const v1::WatchSessionsResponse&)>
        on_message,
    const CallOptions& options) const {
  Call call(options);
  const auto reader = sessions_->WatchSessions(call.context(), request);
  return ReadAll(call, *reader, on_message);
}

absl::StatusOr<v1::StepResponse> Client::Step(
    const v1::StepRequest& request, const CallOptions& options) const {
  return CallUnary(*generation_, &v1::GenerationService::Stub::Step, request,
                   options);
}

absl::Status Client::Generate(
    const v1::GenerateRequest& request,
    absl::FunctionRef<absl::Status(const v1::GenerateResponse&)> on_message,
    const CallOptions& options) const {
  Call call(options);
  const auto reader = generation_->Generate(call.context(), request);
  return ReadAll(call, *reader, on_message);
}

absl::Status Client::Score(
    const v1::ScoreRequest& request,
    absl::FunctionRef<absl::Status(const v1::ScoreResponse&)> on_message,
    const CallOptions& options) const {
  Call call(options);
  const auto reader = generation_->Score(call.context(), request);
  return ReadAll(call, *reader, on_message);
}

absl::Status Client::Embed(
    const v1::EmbedRequest& request,
    absl::FunctionRef<absl::Status(const v1::EmbedResponse&)> on_message,
    const CallOptions& options) const {
  Call call(options);
  const auto reader = generation_->Embed(call.context(), request);
  return ReadAll(call, *reader, on_message);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(
    const v1::ListModelsRequest& request, const CallOptions& options) const {
  return CallUnary(*models_, &v1::ModelService::Stub::ListModels, request,
                   options);
}

absl::StatusOr<v1::Model> Client::GetModel(const v1::GetModelRequest& request,
                                           const CallOptions& options) const {
  return CallUnary(*models_, &v1::ModelService::Stub::GetModel, request,
                   options);
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(
    const v1::TokenizeRequest& request, const CallOptions& options) const {
  return CallUnary(*models_, &v1::ModelService::Stub::Tokenize, request,
                   options);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(
    const v1::DetokenizeRequest& request, const CallOptions& options) const {
  return CallUnary(*models_, &v1::ModelService::Stub::Detokenize, request,
                   options);
}

absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus>
Client::Health(absl::string_view service, const CallOptions& options) const {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(service));
  const auto response = CallUnary(
      *health_, &grpc::health::v1::Health::Stub::Check, request, options);
  if (!response.ok()) return response.status();
  return response->status();
}

// gRPC calls its methods one at a time; none comes between OnDone and the next
// Start.
class GenerateCall::Reactor final
    : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Reactor(const Client& client, OnMessage on_message, OnEnd on_end)
      : stub_(v1::GenerationService::NewStub(client.channel())),
        on_message_(std::move(on_message)),
        on_end_(std::move(on_end)) {}

  void Start(const v1::GenerateRequest& request, const CallOptions& options) {
    {
      const MutexLock lock(mutex_);
      if (closing_) return;
      running_ = true;
      request_ = request;
      call_.emplace(options);
      stub_->async()->Generate(call_->context(), &request_, this);
    }
    StartRead(&response_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    on_message_(response_);
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    {
      const MutexLock lock(mutex_);
      running_ = false;
      ++ending_;
    }
    on_end_(ToStatus(status));
    const MutexLock lock(mutex_);
    --ending_;
    changed_.SignalAll();
  }

  // Cancels what is under way, and waits until no callback can come any more.
  void Close() {
    const MutexLock lock(mutex_);
    closing_ = true;
    if (running_) call_->context()->TryCancel();
    while (running_ || ending_ > 0) changed_.Wait(mutex_);
  }

 private:
  const std::unique_ptr<v1::GenerationService::Stub> stub_;
  const OnMessage on_message_;
  const OnEnd on_end_;
  v1::GenerateResponse response_;  // of the read under way

  Mutex mutex_;
  CondVar changed_;
  std::optional<Call> call_ ABSL_GUARDED_BY(mutex_);
  v1::GenerateRequest request_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  // A call that on_end_ starts may end before on_end_ returns.
  size_t ending_ ABSL_GUARDED_BY(mutex_) = 0;
};

GenerateCall::GenerateCall(const Client& client, OnMessage on_message,
                           OnEnd on_end)
    : reactor_(std::make_unique<Reactor>(client, std::move(on_message),
                                         std::move(on_end))) {}

GenerateCall::~GenerateCall() { reactor_->Close(); }

void GenerateCall::Start(const v1::GenerateRequest& request,
                         const CallOptions& options) {
  reactor_->Start(request, options);
}

}  // namespace steadystate::client
