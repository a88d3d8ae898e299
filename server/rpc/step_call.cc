#include "server/rpc/step_call.h"

#include <utility>

#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/answer_size.h"
#include "server/rpc/run_soon.h"

namespace steadystate {

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
    Answer(std::move(step).status());
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
  const RequestId id = services_.engine.Step(
      *std::move(step),
      [self = shared_from_this()](const absl::StatusOr<StepResult>& result) {
        self->Answer(result);
      });
  MayPark("StepCall::Begin");
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    id_ = id;
    cancel = cancelled_;
  }
  if (cancel) services_.engine.Cancel(id);
}

void StepCall::Answer(const absl::StatusOr<StepResult>& result) {
  if (result.ok()) ToProto(*result, session_, response_);
  if (answer_memory_ > 0) {
    if (result.ok()) Tell(services_.outbound.Hold(account_, answer_memory_));
    Tell(services_.outbound.EndReserve(account_));
  }
  MayPark("StepCall::Answer");
  Finish(record_.End(result.status()));
  MayPark("StepCall::Answer, finished");
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
    Answer(absl::CancelledError("the client has gone"));
  } else {
    services_.engine.Cancel(id);
  }
}

void StepCall::OnDone() {
  const std::shared_ptr<StepCall> self = std::move(self_);
  if (answer_memory_ > 0) Tell(services_.outbound.Hold(account_, 0));
}

}  // namespace steadystate
