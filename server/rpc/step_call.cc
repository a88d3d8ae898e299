#include "server/rpc/step_call.h"

#include <utility>

#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/turn_threads.h"

namespace steadystate {

StepCall* StepCall::Start(absl::string_view method, ServiceContext& services,
                          grpc::CallbackServerContext& context,
                          absl::StatusOr<StepRequest> step, Respond respond) {
  const std::shared_ptr<StepCall> call(
      new StepCall(method, services, context, std::move(respond)));
  call->self_ = call;
  call->Submit(context, std::move(step));
  return call.get();
}

StepCall::StepCall(absl::string_view method, ServiceContext& services,
                   grpc::CallbackServerContext& context, Respond respond)
    : services_(services),
      record_(method, context, services),
      respond_(std::move(respond)),
      account_(ConnectionOf(context)) {}

void StepCall::Submit(const grpc::CallbackServerContext& context,
                      absl::StatusOr<StepRequest> step) {
  if (!step.ok()) {
    End(step.status());
    return;
  }
  if (step->writer == 0) step->writer = services_.engine.NewWriter();
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
  const absl::Status status = respond_(result);
  if (answer_memory_ > 0) {
    if (status.ok()) Tell(services_.outbound.Hold(account_, answer_memory_));
    Tell(services_.outbound.EndReserve(account_));
  }
  MayPark("StepCall::End");
  Finish(record_.End(status));
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

}  // namespace steadystate
