#include "server/rpc/generation_service.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/call_record.h"
#include "server/rpc/connection.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/result_stream-inl.h"
#include "server/rpc/service_context.h"
#include "server/rpc/stream_step_reactor.h"
#include "server/rpc/turn_threads.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {
namespace {

// One unary Step call. Where its answer is large it waits until there is room
// for that, unless it is cancelled meanwhile; from then on it is finished by
// the engine's answer and only by that, so the answer never comes too late. The
// object owns itself from Start to OnDone; gRPC calls that after OnCancel, and
// neither before Start's caller has returned. The engine shares it until it has
// answered, and the budget while it waits: the call may be over before End
// returns. Lock order: the engine is never called with mutex_
// held.
class StepCall final : public grpc::ServerUnaryReactor,
                       public Receiver<StepRequest>,
                       public OutboundBudget::Waiter,
                       public std::enable_shared_from_this<StepCall> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  static StepCall* Start(ServiceContext& services,
                         grpc::CallbackServerContext& context,
                         const v1::StepRequest& request,
                         v1::StepResponse& response);

  void OnCancel() override;
  void OnDone() override;
  void OnOutboundRoom() override;
  void OnAnswers(std::span<const Answer<StepRequest>> answers) override {
    End(*answers.front().end);
  }

 private:
  StepCall(ServiceContext& services, grpc::CallbackServerContext& context,
           v1::StepResponse& response);
  void Submit(const grpc::CallbackServerContext& context,
              const v1::StepRequest& request);
  // Hands to the engine a step that there is room for.
  void Begin();
  void End(const absl::StatusOr<StepResult>& result);

  ServiceContext& services_;
  CallRecord record_;
  v1::StepResponse& response_;
  std::shared_ptr<StepCall> self_;  // from Start to OnDone
  OutboundBudget::Account account_;
  std::string session_;       // "sessions/{id}"
  size_t answer_memory_ = 0;  // as far as it is counted

  Mutex mutex_;
  std::optional<StepRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  RequestId id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

StepCall* StepCall::Start(ServiceContext& services,
                          grpc::CallbackServerContext& context,
                          const v1::StepRequest& request,
                          v1::StepResponse& response) {
  const std::shared_ptr<StepCall> call(
      new StepCall(services, context, response));
  call->self_ = call;
  call->Submit(context, request);
  return call.get();
}

StepCall::StepCall(ServiceContext& services,
                   grpc::CallbackServerContext& context,
                   v1::StepResponse& response)
    : services_(services),
      record_("steadystate.v1.GenerationService/Step", context, services),
      response_(response),
      account_(ConnectionOf(context)) {}

void StepCall::Submit(const grpc::CallbackServerContext& context,
                      const v1::StepRequest& request) {
  absl::StatusOr<StepRequest> step = services_.converter.ToStepRequest(request);
  if (!step.ok()) {
    End(step.status());
    return;
  }
  if (step->ephemeral) {
    End(OutOfBounds("ephemeral", "true", "false but in a StreamStep stream"));
    return;
  }
  session_ = request.session();
  step->writer = services_.engine.NewWriter();
  step->client = ConnectionOf(context);
  step->deadline = record_.deadline();
  const size_t memory = AnswerMemory(step->outputs, services_.engine);
  {
    const MutexLock lock(mutex_);
    waiting_ = *std::move(step);
  }
  if (memory > kSmallAnswerBytes) {
    answer_memory_ = memory;
    if (!services_.outbound.Reserve(account_, memory, shared_from_this())) {
      return;
    }
  }
  Begin();
}

// The thread may be the engine's.
void StepCall::OnOutboundRoom() {
  RunSoon([self = shared_from_this()] {
    MayPark("StepCall::OnOutboundRoom");
    self->Begin();
  });
}

void StepCall::Begin() {
  std::optional<StepRequest> step;
  {
    const MutexLock lock(mutex_);
    step.swap(waiting_);
  }
  if (!step.has_value()) return;  // cancelled, and answered
  const absl::StatusOr<RequestId> id =
      services_.engine.Submit(*std::move(step), shared_from_this());
  MayPark("StepCall::Begin");
  if (!id.ok()) {
    End(id.status());
    return;
  }
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    id_ = *id;
    cancel = cancelled_;
  }
  if (cancel) services_.engine.Cancel(*id);
}

void StepCall::End(const absl::StatusOr<StepResult>& result) {
  if (result.ok()) ToProto(*result, session_, response_);
  if (answer_memory_ > 0) {
    if (result.ok()) Tell(services_.outbound.Hold(account_, answer_memory_));
    Tell(services_.outbound.EndReserve(account_));
  }
  MayPark("StepCall::End");
  Finish(record_.End(result.status()));
  MayPark("StepCall::End, finished");
}

void StepCall::OnCancel() {
  std::optional<StepRequest> waited;
  RequestId id = 0;
  {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    waited.swap(waiting_);
    id = id_;
  }
  if (waited.has_value()) {
    End(absl::CancelledError("the client has gone"));
  } else {
    services_.engine.Cancel(id);
  }
}

void StepCall::OnDone() {
  const std::shared_ptr<StepCall> self = std::move(self_);
  if (answer_memory_ > 0) Tell(services_.outbound.Hold(account_, 0));
}

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
