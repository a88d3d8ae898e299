#include "server/rpc/generation_service.h"

#include "server/rpc/embed_call.h"
#include "server/rpc/generate_call.h"
#include "server/rpc/score_call.h"
#include "server/rpc/step_call.h"
#include "server/rpc/stream_step_reactor.h"

namespace steadystate {

GenerationService::GenerationService(ServiceContext& services)
    : TypedService(services) {
  Add("/steadystate.v1.GenerationService/Step", &GenerationService::Step);
  Add("/steadystate.v1.GenerationService/StreamStep",
      &GenerationService::StreamStep);
  Add("/steadystate.v1.GenerationService/Generate",
      &GenerationService::Generate);
  Add("/steadystate.v1.GenerationService/Score", &GenerationService::Score);
  Add("/steadystate.v1.GenerationService/Embed", &GenerationService::Embed);
}

grpc::ServerUnaryReactor* GenerationService::Step(
    grpc::CallbackServerContext* context, const v1::StepRequest* request,
    v1::StepResponse* response) {
  return StepCall::Start(services_, *context, *request, *response);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, v1::StreamStepResponse>*
GenerationService::StreamStep(grpc::CallbackServerContext* context) {
  return StreamStepReactor::Start(services_, *context);
}

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  return StartGenerate(services_, *context, *request);
}

grpc::ServerWriteReactor<v1::ScoreResponse>* GenerationService::Score(
    grpc::CallbackServerContext* context, const v1::ScoreRequest* request) {
  return StartScore(services_, *context, *request);
}

grpc::ServerWriteReactor<v1::EmbedResponse>* GenerationService::Embed(
    grpc::CallbackServerContext* context, const v1::EmbedRequest* request) {
  return StartEmbed(services_, *context, *request);
}

}  // namespace steadystate
