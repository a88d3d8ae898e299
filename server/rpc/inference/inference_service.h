#ifndef STEADYSTATE_SERVER_RPC_INFERENCE_INFERENCE_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_INFERENCE_INFERENCE_SERVICE_H_

#include <functional>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/inference/infer_protocol.h"
#include "server/rpc/inference/infer_request.h"
#include "server/rpc/service_context.h"
#include "server/rpc/typed_service.h"

namespace inference {
class ModelConfig;
class ModelConfigRequest;
class ModelConfigResponse;
class ModelInferRequest;
class ModelInferResponse;
class ModelMetadataRequest;
class ModelMetadataResponse;
class ModelReadyRequest;
class ModelReadyResponse;
class ModelStatisticsRequest;
class ModelStatisticsResponse;
class ServerLiveRequest;
class ServerLiveResponse;
class ServerMetadataRequest;
class ServerMetadataResponse;
class ServerReadyRequest;
class ServerReadyResponse;
}  // namespace inference

namespace steadystate {

// inference.GRPCInferenceService, the second version of KServe's protocol with
// Triton's additions, on the same engine and sessions as our own services; see
// README.md here. Thread-safe.
class InferenceService final : public TypedService {
 public:
  static constexpr char kName[] = "inference.GRPCInferenceService";

  // `services` outlives this object; `ready` says whether new work is taken.
  InferenceService(ServiceContext& services, std::function<bool()> ready);

  grpc::ServerUnaryReactor* ServerLive(
      grpc::CallbackServerContext* context,
      const inference::ServerLiveRequest* request,
      inference::ServerLiveResponse* response);
  grpc::ServerUnaryReactor* ServerReady(
      grpc::CallbackServerContext* context,
      const inference::ServerReadyRequest* request,
      inference::ServerReadyResponse* response);
  grpc::ServerUnaryReactor* ModelReady(
      grpc::CallbackServerContext* context,
      const inference::ModelReadyRequest* request,
      inference::ModelReadyResponse* response);
  grpc::ServerUnaryReactor* ServerMetadata(
      grpc::CallbackServerContext* context,
      const inference::ServerMetadataRequest* request,
      inference::ServerMetadataResponse* response);
  grpc::ServerUnaryReactor* ModelMetadata(
      grpc::CallbackServerContext* context,
      const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response);
  grpc::ServerUnaryReactor* ModelConfig(
      grpc::CallbackServerContext* context,
      const inference::ModelConfigRequest* request,
      inference::ModelConfigResponse* response);
  grpc::ServerUnaryReactor* ModelStatistics(
      grpc::CallbackServerContext* context,
      const inference::ModelStatisticsRequest* request,
      inference::ModelStatisticsResponse* response);
  grpc::ServerUnaryReactor* ModelInfer(
      grpc::CallbackServerContext* context,
      const inference::ModelInferRequest* request,
      inference::ModelInferResponse* response);
  grpc::ServerBidiReactor<grpc::ByteBuffer, google::protobuf::Message>*
  ModelStreamInfer(grpc::CallbackServerContext* context);

 private:
  void AddNotServed();
  void Describe(inference::ModelMetadataResponse& to) const;
  void Describe(inference::ModelConfig& to) const;

  const std::function<bool()> ready_;
  const InferConverter converter_;
  InferStatistics statistics_;
  const InferProtocol protocol_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_INFERENCE_INFERENCE_SERVICE_H_
