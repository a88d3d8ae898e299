#ifndef STEADYSTATE_SERVER_RPC_GENERATION_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_GENERATION_SERVICE_H_

#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/own_protocol.h"
#include "server/rpc/service_context.h"
#include "server/rpc/typed_service.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// steadystate.v1.GenerationService on the engine. Calls never wait on gRPC's
// threads: each lives in a reactor that the engine calls back. Thread-safe.
class GenerationService final : public TypedService {
 public:
  // `services` outlives this object.
  explicit GenerationService(ServiceContext& services);

  grpc::ServerUnaryReactor* Step(grpc::CallbackServerContext* context,
                                 const v1::StepRequest* request,
                                 v1::StepResponse* response);
  grpc::ServerBidiReactor<grpc::ByteBuffer, google::protobuf::Message>*
  StreamStep(grpc::CallbackServerContext* context);
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request);
  grpc::ServerWriteReactor<v1::ScoreResponse>* Score(
      grpc::CallbackServerContext* context, const v1::ScoreRequest* request);
  grpc::ServerWriteReactor<v1::EmbedResponse>* Embed(
      grpc::CallbackServerContext* context, const v1::EmbedRequest* request);

 private:
  const OwnProtocol protocol_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_GENERATION_SERVICE_H_
