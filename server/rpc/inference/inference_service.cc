#include "server/rpc/inference/inference_service.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "inference/grpc_service.pb.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/base/version.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/step_call.h"
#include "server/rpc/stream_step_reactor.h"
#include "server/rpc/unary.h"

namespace steadystate {
namespace {

// Of Triton's additions to the protocol, those that are here.
constexpr const char* kExtensions[] = {"sequence", "model_configuration",
                                       "parameters", "statistics"};

constexpr char kPlatform[] = "steadystate";

// A method that Triton publishes and that makes no sense here.
struct NotServed {
  const char* path;
  absl::string_view instead;
};

constexpr absl::string_view kOneModel =
    "the server has one model, given by --model when it is started: start "
    "another server for another model, and ask ModelReady or ModelMetadata for "
    "this one";
constexpr absl::string_view kNoSharedMemory =
    "tensors travel in the messages: send inputs in raw_input_contents and "
    "read "
    "outputs from raw_output_contents";

constexpr NotServed kNotServed[] = {
    {"/inference.GRPCInferenceService/RepositoryIndex", kOneModel},
    {"/inference.GRPCInferenceService/RepositoryModelLoad", kOneModel},
    {"/inference.GRPCInferenceService/RepositoryModelUnload", kOneModel},
    {"/inference.GRPCInferenceService/SystemSharedMemoryStatus",
     kNoSharedMemory},
    {"/inference.GRPCInferenceService/SystemSharedMemoryRegister",
     kNoSharedMemory},
    {"/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
     kNoSharedMemory},
    {"/inference.GRPCInferenceService/CudaSharedMemoryStatus", kNoSharedMemory},
    {"/inference.GRPCInferenceService/CudaSharedMemoryRegister",
     kNoSharedMemory},
    {"/inference.GRPCInferenceService/CudaSharedMemoryUnregister",
     kNoSharedMemory},
    {"/inference.GRPCInferenceService/TraceSetting",
     "there are no traces: scrape /metrics, and ask ModelStatistics"},
    {"/inference.GRPCInferenceService/LogSettings",
     "start the server with another --log_level"},
};

absl::Status NotServedError(const NotServed& method) {
  const std::string name(absl::string_view(method.path).substr(1));
  return MakeError(ErrorReason::kMethodNotServed,
                   absl::StrCat(name, " is not served here; ", method.instead),
                   {{"method", name}});
}

template <typename Tensor>
void SetTensor(absl::string_view name, const char* datatype, int64_t dimension,
               Tensor& to) {
  to.set_name(name.data(), name.size());
  to.set_datatype(datatype);
  to.add_shape(dimension);
}

template <typename Tensor>
void SetTensor(absl::string_view name, inference::DataType type,
               int64_t dimension, Tensor& to) {
  to.set_name(name.data(), name.size());
  to.set_data_type(type);
  to.add_dims(dimension);
}

// Calls of one connection on a sequence wait for each other, as clients of
// Triton expect: they are one writer, which no other one is.
WriterId WriterOf(ClientId connection) {
  return (WriterId{1} << 63) | connection;
}

// As many sessions as there is room for, in memory or in the store.
int32_t MostSequences(const Engine& engine) {
  const EngineOptions& options = engine.options();
  const uint64_t most = options.state_memory_bytes /
                        SessionLayoutOf(engine.model(), options).charge_bytes();
  return static_cast<int32_t>(std::min<uint64_t>(most, INT32_MAX));
}

}  // namespace

InferenceService::InferenceService(ServiceContext& services,
                                   std::function<bool()> ready)
    : TypedService(services),
      ready_(std::move(ready)),
      converter_(services.engine.model(), services.engine.options(),
                 services.max_message_bytes),
      statistics_(services.engine.clock()),
      protocol_(converter_, statistics_, services.max_message_bytes) {
  Add("/inference.GRPCInferenceService/ServerLive",
      &InferenceService::ServerLive);
  Add("/inference.GRPCInferenceService/ServerReady",
      &InferenceService::ServerReady);
  Add("/inference.GRPCInferenceService/ModelReady",
      &InferenceService::ModelReady);
  Add("/inference.GRPCInferenceService/ServerMetadata",
      &InferenceService::ServerMetadata);
  Add("/inference.GRPCInferenceService/ModelMetadata",
      &InferenceService::ModelMetadata);
  Add("/inference.GRPCInferenceService/ModelConfig",
      &InferenceService::ModelConfig);
  Add("/inference.GRPCInferenceService/ModelStatistics",
      &InferenceService::ModelStatistics);
  Add("/inference.GRPCInferenceService/ModelInfer",
      &InferenceService::ModelInfer);
  Add("/inference.GRPCInferenceService/ModelStreamInfer",
      &InferenceService::ModelStreamInfer);
  AddNotServed();
}

// What such a call brings is not looked at.
void InferenceService::AddNotServed() {
  for (const NotServed& method : kNotServed) {
    Refuse<inference::ServerLiveRequest>(
        method.path, [&method] { return NotServedError(method); });
  }
}

grpc::ServerUnaryReactor* InferenceService::ServerLive(
    grpc::CallbackServerContext* context,
    const inference::ServerLiveRequest* /*request*/,
    inference::ServerLiveResponse* response) {
  return AnswerUnary(services_, *context,
                     "inference.GRPCInferenceService/ServerLive", *response,
                     [response] {
                       response->set_live(true);
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* InferenceService::ServerReady(
    grpc::CallbackServerContext* context,
    const inference::ServerReadyRequest* /*request*/,
    inference::ServerReadyResponse* response) {
  return AnswerUnary(services_, *context,
                     "inference.GRPCInferenceService/ServerReady", *response,
                     [this, response] {
                       response->set_ready(ready_());
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* InferenceService::ModelReady(
    grpc::CallbackServerContext* context,
    const inference::ModelReadyRequest* request,
    inference::ModelReadyResponse* response) {
  return AnswerUnary(
      services_, *context, "inference.GRPCInferenceService/ModelReady",
      *response, [this, request, response] {
        response->set_ready(
            converter_.CheckModel("name", request->name(), request->version())
                .ok() &&
            ready_());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::ServerMetadata(
    grpc::CallbackServerContext* context,
    const inference::ServerMetadataRequest* /*request*/,
    inference::ServerMetadataResponse* response) {
  return AnswerUnary(services_, *context,
                     "inference.GRPCInferenceService/ServerMetadata", *response,
                     [response] {
                       response->set_name(kPlatform);
                       response->set_version(kVersion);
                       for (const char* extension : kExtensions) {
                         response->add_extensions(extension);
                       }
                       return absl::OkStatus();
                     });
}

grpc::ServerUnaryReactor* InferenceService::ModelMetadata(
    grpc::CallbackServerContext* context,
    const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  return AnswerUnary(services_, *context,
                     "inference.GRPCInferenceService/ModelMetadata", *response,
                     [this, request, response] {
                       STEADYSTATE_RETURN_IF_ERROR(converter_.CheckModel(
                           "name", request->name(), request->version()));
                       Describe(*response);
                       return absl::OkStatus();
                     });
}

void InferenceService::Describe(inference::ModelMetadataResponse& to) const {
  const auto vocab_size =
      static_cast<int64_t>(services_.engine.model().description().vocab_size);
  to.set_name(converter_.model_name());
  to.add_versions(std::string(kModelVersion));
  to.set_platform(kPlatform);
  SetTensor(kTokensInput, "INT32", -1, *to.add_inputs());
  SetTensor(kSampledTokenOutput, "INT32", 1, *to.add_outputs());
  SetTensor(kLogitsOutput, "FP32", vocab_size, *to.add_outputs());
  SetTensor(kPositionOutput, "UINT64", 1, *to.add_outputs());
}

grpc::ServerUnaryReactor* InferenceService::ModelConfig(
    grpc::CallbackServerContext* context,
    const inference::ModelConfigRequest* request,
    inference::ModelConfigResponse* response) {
  return AnswerUnary(services_, *context,
                     "inference.GRPCInferenceService/ModelConfig", *response,
                     [this, request, response] {
                       STEADYSTATE_RETURN_IF_ERROR(converter_.CheckModel(
                           "name", request->name(), request->version()));
                       Describe(*response->mutable_config());
                       return absl::OkStatus();
                     });
}

void InferenceService::Describe(inference::ModelConfig& to) const {
  using inference::DataType;
  const auto vocab_size =
      static_cast<int64_t>(services_.engine.model().description().vocab_size);
  to.set_name(converter_.model_name());
  to.set_platform(kPlatform);
  to.set_backend(kPlatform);
  to.set_max_batch_size(0);
  SetTensor(kTokensInput, DataType::TYPE_INT32, -1, *to.add_input());
  SetTensor(kSampledTokenOutput, DataType::TYPE_INT32, 1, *to.add_output());
  SetTensor(kLogitsOutput, DataType::TYPE_FP32, vocab_size, *to.add_output());
  SetTensor(kPositionOutput, DataType::TYPE_UINT64, 1, *to.add_output());
  auto& sequences = *to.mutable_sequence_batching();
  sequences.set_max_sequence_idle_microseconds(static_cast<uint64_t>(
      absl::ToInt64Microseconds(services_.engine.options().session_ttl)));
  sequences.mutable_oldest()->set_max_candidate_sequences(
      MostSequences(services_.engine));
  to.mutable_model_transaction_policy()->set_decoupled(false);
}

grpc::ServerUnaryReactor* InferenceService::ModelStatistics(
    grpc::CallbackServerContext* context,
    const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  return AnswerUnary(
      services_, *context, "inference.GRPCInferenceService/ModelStatistics",
      *response, [this, request, response] {
        if (!request->name().empty()) {
          STEADYSTATE_RETURN_IF_ERROR(converter_.CheckModel(
              "name", request->name(), request->version()));
        }
        auto& model = *response->add_model_stats();
        model.set_name(converter_.model_name());
        model.set_version(kModelVersion.data(), kModelVersion.size());
        statistics_.Fill(model);
        model.set_execution_count(services_.metrics.CountBatches());
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* InferenceService::ModelInfer(
    grpc::CallbackServerContext* context,
    const inference::ModelInferRequest* request,
    inference::ModelInferResponse* response) {
  StepRequest step;
  uint32_t form = 0;
  const absl::Status status = converter_.ToStepRequest(*request, step, form);
  std::string session = step.session;
  step.writer = WriterOf(ConnectionOf(*context));
  return StepCall::Start(
      "inference.GRPCInferenceService/ModelInfer", services_, *context,
      status.ok() ? absl::StatusOr<StepRequest>(std::move(step)) : status,
      [this, request, response, form,
       session = std::move(session)](const absl::StatusOr<StepResult>& result) {
        return protocol_.Respond(
            {.request_id = request->id(), .session = session, .form = form},
            result, *response);
      });
}

grpc::ServerBidiReactor<grpc::ByteBuffer, google::protobuf::Message>*
InferenceService::ModelStreamInfer(grpc::CallbackServerContext* context) {
  return StreamStepReactor::Start(protocol_, services_, *context);
}

}  // namespace steadystate
