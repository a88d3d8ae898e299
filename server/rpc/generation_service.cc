#include "server/rpc/generation_service.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/result_stream-inl.h"
#include "server/rpc/service_context.h"
#include "server/rpc/step_call.h"
#include "server/rpc/stream_step_reactor.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {
namespace {

// Starts a call, which then owns itself (result_stream.h).
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request) {
  using Stream = ResultStream<v1::GenerateResponse, GenerateRequest>;
  return Stream::Start(
      "steadystate.v1.GenerationService/Generate", services, context,
      request.text().size(),
      [&services, &context, &request](
          const std::shared_ptr<Stream>& stream) -> absl::StatusOr<RequestId> {
        STEADYSTATE_ASSIGN_OR_RETURN(
            GenerateRequest generate,
            services.converter.ToGenerateRequest(request));
        generate.writer = services.engine.NewWriter();
        generate.client = ConnectionOf(context);
        generate.deadline = stream->deadline();
        stream->ExpectPieces(PieceMemory(generate));
        return services.engine.Submit(std::move(generate), stream);
      },
      [](const GenerateSummary& summary, v1::GenerateResponse& to) {
        ToProto(summary, to);
      });
}

// Starts a call, which then owns itself (result_stream.h).
grpc::ServerWriteReactor<v1::ScoreResponse>* StartScore(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::ScoreRequest& request) {
  using Stream = ResultStream<v1::ScoreResponse, ScoreRequest>;
  return Stream::Start(
      "steadystate.v1.GenerationService/Score", services, context,
      request.text().size(),
      [&services, &context, &request](
          const std::shared_ptr<Stream>& stream) -> absl::StatusOr<RequestId> {
        STEADYSTATE_ASSIGN_OR_RETURN(
            ScoreRequest score, services.converter.ToScoreRequest(request));
        score.writer = services.engine.NewWriter();
        score.client = ConnectionOf(context);
        score.deadline = stream->deadline();
        stream->ExpectPieces(PieceMemory(score, services.engine));
        return services.engine.Submit(std::move(score), stream);
      },
      [](const ScoreSummary& summary, v1::ScoreResponse& to) {
        ToProto(summary, to);
      });
}

// Starts a call, which then owns itself (result_stream.h).
grpc::ServerWriteReactor<v1::EmbedResponse>* StartEmbed(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::EmbedRequest& request) {
  using Stream = ResultStream<v1::EmbedResponse, EmbedRequest>;
  return Stream::Start(
      "steadystate.v1.GenerationService/Embed", services, context,
      request.text().size(),
      [&services, &context, &request](
          const std::shared_ptr<Stream>& stream) -> absl::StatusOr<RequestId> {
        STEADYSTATE_ASSIGN_OR_RETURN(
            EmbedRequest embed, services.converter.ToEmbedRequest(request));
        embed.writer = services.engine.NewWriter();
        embed.client = ConnectionOf(context);
        embed.deadline = stream->deadline();
        stream->ExpectPieces(PieceMemory(embed, services.engine));
        return services.engine.Submit(std::move(embed), stream);
      },
      [](const EmbedSummary& summary, v1::EmbedResponse& to) {
        ToProto(summary, to);
      });
}

}  // namespace

GenerationService::GenerationService(ServiceContext& services)
    : TypedService(services),
      protocol_(services.converter, services.max_steps_per_message,
                services.max_message_bytes) {
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
  absl::StatusOr<StepRequest> step =
      services_.converter.ToStepRequest(*request);
  if (step.ok() && step->ephemeral) {
    step = OutOfBounds("ephemeral", "true", "false but in a StreamStep stream");
  }
  return StepCall::Start(
      "steadystate.v1.GenerationService/Step", services_, *context,
      std::move(step),
      [request, response](const absl::StatusOr<StepResult>& result) {
        if (result.ok()) ToProto(*result, request->session(), *response);
        return result.status();
      });
}

grpc::ServerBidiReactor<grpc::ByteBuffer, google::protobuf::Message>*
GenerationService::StreamStep(grpc::CallbackServerContext* context) {
  return StreamStepReactor::Start(protocol_, services_, *context);
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
