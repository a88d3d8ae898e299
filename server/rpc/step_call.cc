#include "server/rpc/step_call.h"

#include <utility>

#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"

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
      response_(response) {}

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
  id_ = services_.engine.Step(
      *std::move(step),
      [self = shared_from_this()](const absl::StatusOr<StepResult>& result) {
        self->Answer(result);
      });
  MayPark("StepCall::Submit");
}

void StepCall::Answer(const absl::StatusOr<StepResult>& result) {
  if (result.ok()) ToProto(*result, session_, response_);
  MayPark("StepCall::Answer");
  Finish(record_.End(result.status()));
  MayPark("StepCall::Answer, finished");
}

void StepCall::OnCancel() { services_.engine.Cancel(id_); }

void StepCall::OnDone() {
  const std::shared_ptr<StepCall> self = std::move(self_);
}

}  // namespace steadystate
