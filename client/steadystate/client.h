#ifndef STEADYSTATE_CLIENT_STEADYSTATE_CLIENT_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "steadystate/call.h"
#include "steadystate/v1/generation.grpc.pb.h"
#include "steadystate/v1/model.grpc.pb.h"
#include "steadystate/v1/session.grpc.pb.h"

namespace steadystate::client {

// How to connect.
struct ClientOptions {
  // How long Connect waits for the server.
  absl::Duration connect_timeout = absl::Seconds(5);
  // The largest answer that is accepted. Logits of large vocabularies are long.
  int max_message_bytes = 64 << 20;
  // A server that is silent for `keepalive_time` is pinged; if no reply comes
  // within `keepalive_timeout`, its calls, streams too, end with UNAVAILABLE.
  // Steadystate servers accept a ping every 10 s.
  absl::Duration keepalive_time = absl::Seconds(30);
  absl::Duration keepalive_timeout = absl::Seconds(10);
};

// Until when a server that is about to shut down takes requests, by its time of
// day.
absl::Time RequestsUntil(const v1::GoingAway& going_away);

// A connection to a Steadystate server. Thread-safe; movable.
//
// Every method makes one call and waits for its end; none is repeated by
// itself, since a step that was applied twice would spoil the state. Errors
// carry the server's code and message, and its reason in ReasonOf and
// GetErrorDetails (steadystate/error.h). UNAVAILABLE without details: no server
// answered. The requests and answers are those of the protos, which say what
// each method does.
//
//   absl::StatusOr<Client> client = Client::Connect("127.0.0.1:50051");
//   if (!client.ok()) return client.status();
//   absl::StatusOr<v1::Session> session = client->CreateSession({});
//   if (!session.ok()) return session.status();
//   v1::GenerateRequest request;
//   request.set_session(session->name());
//   request.set_text("Once upon a time");
//   request.set_max_tokens(100);
//   return client->Generate(request, [](const v1::GenerateResponse& message) {
//     std::cout << message.text_delta() << std::flush;
//     return absl::OkStatus();
//   });
//
// Many steps on many sessions: steadystate/step_stream.h.
class Client {
 public:
  // Connects to "host:port" without encryption, or to what people mean by
  // "localhost", ":50052" or "http://host:50051/". UNAVAILABLE, and why, if
  // nothing listens there or connect_timeout passes; INVALID_ARGUMENT for what
  // is no address.
  static absl::StatusOr<Client> Connect(const std::string& address,
                                        const ClientOptions& options = {});

  // Another connection to the same server, with the same options: its calls do
  // not wait for those of this one.
  absl::StatusOr<Client> ConnectAgain() const {
    return Connect(address_, options_);
  }

  // steadystate.v1.SessionService.
  absl::StatusOr<v1::Session> CreateSession(
      const v1::CreateSessionRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::Session> GetSession(const v1::GetSessionRequest& request,
                                         const CallOptions& options = {}) const;
  // One page; the answer has the token of the next one.
  absl::StatusOr<v1::ListSessionsResponse> ListSessions(
      const v1::ListSessionsRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::ForkSessionResponse> ForkSession(
      const v1::ForkSessionRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::Session> UpdateSession(
      const v1::UpdateSessionRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::Session> RewindSession(
      const v1::RewindSessionRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::Checkpoint> CreateCheckpoint(
      const v1::CreateCheckpointRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(
      const v1::ListCheckpointsRequest& request,
      const CallOptions& options = {}) const;
  absl::Status DeleteCheckpoint(const v1::DeleteCheckpointRequest& request,
                                const CallOptions& options = {}) const;
  // A snapshot, in the chunks in which it comes. The callback as below.
  absl::Status ExportSession(
      const v1::ExportSessionRequest& request,
      absl::FunctionRef<absl::Status(const v1::ExportSessionResponse&)>
          on_message,
      const CallOptions& options = {}) const;
  // `request` says what the session shall be called; its chunk and size are not
  // looked at.
  absl::StatusOr<v1::Session> ImportSession(
      const v1::ImportSessionRequest& request, absl::string_view snapshot,
      const CallOptions& options = {}) const;
  absl::Status HibernateSession(const v1::HibernateSessionRequest& request,
                                const CallOptions& options = {}) const;
  absl::Status DeleteSession(const v1::DeleteSessionRequest& request,
                             const CallOptions& options = {}) const;
  // What happens to sessions, for as long as the call goes on: the server does
  // not end it. The callback as below.
  absl::Status WatchSessions(
      const v1::WatchSessionsRequest& request,
      absl::FunctionRef<absl::Status(const v1::WatchSessionsResponse&)>
          on_message,
      const CallOptions& options = {}) const;

  // steadystate.v1.GenerationService. The callback is called for each message
  // as it arrives, by the calling thread; an error from it cancels the call and
  // is returned. A server that is about to shut down says so in a message of
  // Generate's (going_away), which may have nothing else.
  absl::StatusOr<v1::StepResponse> Step(const v1::StepRequest& request,
                                        const CallOptions& options = {}) const;
  absl::Status Generate(
      const v1::GenerateRequest& request,
      absl::FunctionRef<absl::Status(const v1::GenerateResponse&)> on_message,
      const CallOptions& options = {}) const;
  absl::Status Score(
      const v1::ScoreRequest& request,
      absl::FunctionRef<absl::Status(const v1::ScoreResponse&)> on_message,
      const CallOptions& options = {}) const;
  absl::Status Embed(
      const v1::EmbedRequest& request,
      absl::FunctionRef<absl::Status(const v1::EmbedResponse&)> on_message,
      const CallOptions& options = {}) const;

  // steadystate.v1.ModelService. A server's only model has also the name
  // "models/-". ListModels gives one page.
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::Model> GetModel(const v1::GetModelRequest& request,
                                     const CallOptions& options = {}) const;
  absl::StatusOr<v1::TokenizeResponse> Tokenize(
      const v1::TokenizeRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      const v1::DetokenizeRequest& request,
      const CallOptions& options = {}) const;

  // grpc.health.v1. The status of a service, or of the whole server if
  // `service` is empty. NOT_FOUND if the server does not know it.
  absl::StatusOr<grpc::health::v1::HealthCheckResponse::ServingStatus> Health(
      absl::string_view service, const CallOptions& options = {}) const;

  // The connection, for calls that this class has no method for. Lives for as
  // long as anyone has it.
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  Client(const std::string& address, const ClientOptions& options,
         const std::shared_ptr<grpc::Channel>& channel);

  std::string address_;
  ClientOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

// Generate calls, one after the other, without a thread that waits for them:
// for callers that have many under way. Keeps the connection, so the Client may
// go first.
//
// The callbacks come one at a time, on threads of gRPC's, which must not be
// kept waiting. A message is the callback's only until it returns.
class GenerateCall {
 public:
  using OnMessage = std::function<void(const v1::GenerateResponse&)>;
  // Comes last of a call's callbacks. May start the next call, and may not
  // destroy this object.
  using OnEnd = std::function<void(const absl::Status&)>;

  GenerateCall(const Client& client, OnMessage on_message, OnEnd on_end);

  // Cancels the call under way, of which OnEnd still hears, and waits for the
  // last callback. A Start meanwhile does nothing.
  ~GenerateCall();
  GenerateCall(const GenerateCall&) = delete;
  GenerateCall& operator=(const GenerateCall&) = delete;

  // Starts a call; `request` is copied. To end it early: options.canceller.
  // REQUIRES: none is under way.
  void Start(const v1::GenerateRequest& request,
             const CallOptions& options = {});

 private:
  class Reactor;

  const std::unique_ptr<Reactor> reactor_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_CLIENT_H_
