#ifndef STEADYSTATE_SERVER_RPC_MODEL_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_MODEL_SERVICE_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "server/rpc/typed_service.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate {

// steadystate.v1.ModelService on the engine's model. Thread-safe.
class ModelService final : public TypedService {
 public:
  // `services` outlives this object.
  explicit ModelService(ServiceContext& services);

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response);
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response);
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response);
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response);

 private:
  // What an answer takes in memory, about, that has a text or its tokens.
  size_t AnswerMemory(size_t text_bytes) const;
  // Empty names the server's only model.
  absl::Status CheckModel(absl::string_view name) const;
  absl::Status DoTokenize(const v1::TokenizeRequest& request,
                          v1::TokenizeResponse& response) const;
  absl::Status DoDetokenize(const v1::DetokenizeRequest& request,
                            v1::DetokenizeResponse& response) const;
  // OK if the tokens' text fits in a message.
  absl::Status CheckDecodedSize(std::span<const int32_t> tokens) const;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_MODEL_SERVICE_H_
