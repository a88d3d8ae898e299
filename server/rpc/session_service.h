#ifndef STEADYSTATE_SERVER_RPC_SESSION_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_SESSION_SERVICE_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "server/rpc/typed_service.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// steadystate.v1.SessionService on the engine. Thread-safe.
class SessionService final : public TypedService {
 public:
  // `services` outlives this object.
  explicit SessionService(ServiceContext& services);

  grpc::ServerUnaryReactor* CreateSession(
      grpc::CallbackServerContext* context,
      const v1::CreateSessionRequest* request, v1::Session* response);
  grpc::ServerUnaryReactor* GetSession(grpc::CallbackServerContext* context,
                                       const v1::GetSessionRequest* request,
                                       v1::Session* response);
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response);
  grpc::ServerUnaryReactor* ForkSession(grpc::CallbackServerContext* context,
                                        const v1::ForkSessionRequest* request,
                                        v1::ForkSessionResponse* response);
  grpc::ServerUnaryReactor* UpdateSession(
      grpc::CallbackServerContext* context,
      const v1::UpdateSessionRequest* request, v1::Session* response);
  grpc::ServerUnaryReactor* RewindSession(
      grpc::CallbackServerContext* context,
      const v1::RewindSessionRequest* request, v1::Session* response);
  grpc::ServerUnaryReactor* CreateCheckpoint(
      grpc::CallbackServerContext* context,
      const v1::CreateCheckpointRequest* request, v1::Checkpoint* response);
  grpc::ServerUnaryReactor* ListCheckpoints(
      grpc::CallbackServerContext* context,
      const v1::ListCheckpointsRequest* request,
      v1::ListCheckpointsResponse* response);
  grpc::ServerUnaryReactor* DeleteCheckpoint(
      grpc::CallbackServerContext* context,
      const v1::DeleteCheckpointRequest* request,
      google::protobuf::Empty* response);
  grpc::ServerWriteReactor<v1::ExportSessionResponse>* ExportSession(
      grpc::CallbackServerContext* context,
      const v1::ExportSessionRequest* request);
  grpc::ServerReadReactor<grpc::ByteBuffer>* ImportSession(
      grpc::CallbackServerContext* context, v1::Session* response);
  grpc::ServerUnaryReactor* HibernateSession(
      grpc::CallbackServerContext* context,
      const v1::HibernateSessionRequest* request,
      google::protobuf::Empty* response);
  grpc::ServerUnaryReactor* DeleteSession(
      grpc::CallbackServerContext* context,
      const v1::DeleteSessionRequest* request,
      google::protobuf::Empty* response);
  grpc::ServerWriteReactor<v1::WatchSessionsResponse>* WatchSessions(
      grpc::CallbackServerContext* context,
      const v1::WatchSessionsRequest* request);

 private:
  grpc::ServerUnaryReactor* GetWithNorms(grpc::CallbackServerContext& context,
                                         const v1::GetSessionRequest& request,
                                         v1::Session& response);
  size_t MostNormsBytes() const;
  absl::StatusOr<WorkRequest> ForkWork(
      const v1::ForkSessionRequest& request,
      const std::shared_ptr<Forks>& forks) const;
  absl::StatusOr<WorkRequest> UpdateWork(
      const v1::UpdateSessionRequest& request,
      const std::shared_ptr<SessionInfo>& updated) const;
  absl::StatusOr<WorkRequest> RewindWork(
      const v1::RewindSessionRequest& request,
      const std::shared_ptr<SessionInfo>& rewound) const;
  grpc::ServerUnaryReactor* CreateFromCheckpoint(
      grpc::CallbackServerContext& context,
      const v1::CreateSessionRequest& request, v1::Session& response);
  grpc::ServerUnaryReactor* CreateFromPrefix(
      grpc::CallbackServerContext& context,
      const v1::CreateSessionRequest& request, v1::Session& response);
  void Show(const std::string& id, v1::Session& to) const;
  void Show(const std::string& id, v1::Checkpoint& to) const;
  void SetSession(const SessionInfo& info, v1::Session& to) const;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_SESSION_SERVICE_H_
