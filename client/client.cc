#include "client/client.h"

#include <algorithm>
#include <climits>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/clock.h"
#include "client/error.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace steadystate::client {
namespace {

// The context of one call, from its start to its end.
class Call {
 public:
  explicit Call(const CallOptions& options) : canceller_(options.canceller) {
    if (options.timeout != absl::InfiniteDuration()) {
      context_.set_deadline(DeadlineIn(options.timeout));
    }
    if (canceller_ != nullptr) canceller_->Add(&context_);
  }
  ~Call() {
    if (canceller_ != nullptr) canceller_->Remove(&context_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  grpc::ClientContext* context() { return &context_; }

 private:
  Canceller* const canceller_;
  grpc::ClientContext context_;
};

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

}  // namespace

absl::StatusOr<Client> Client::Connect(const std::string& address,
                                       const ClientOptions& options) {
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
  const gpr_timespec deadline = DeadlineIn(options.connect_timeout);
  for (int attempt = 0; attempt < kConnectAttempts; ++attempt) {
    const auto channel = grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
    if (WaitForConnection(*channel, deadline)) {
      return Client(address, options, channel);
    }
  }
  return absl::UnavailableError(absl::StrCat("no server answers at ", address));
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

absl::Status Client::DeleteSession(const v1::DeleteSessionRequest& request,
                                   const CallOptions& options) const {
  return CallUnary(*sessions_, &v1::SessionService::Stub::DeleteSession,
                   request, options)
      .status();
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

absl::StatusOr<v1::Model> Client::GetModel(const v1::GetModelRequest& request,
                                           const CallOptions& options) const {
  return CallUnary(*models_, &v1::ModelService::Stub::GetModel, request,
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

}  // namespace steadystate::client
