#include "server/rpc/step_call.h"

#include <utility>

#include "server/rpc/answer.h"

namespace steadystate {

StepCall* StepCall::Start(ServiceContext& services,
                          grpc::CallbackServerContext& context,
                          const v1::StepRequest& request,
                          v1::StepResponse& response) {
  StepCall* const call = new StepCall(services, context, response);
  call->Submit(request);
  return call;
}

StepCall::StepCall(ServiceContext& services,
                   grpc::CallbackServerContext& context,
                   v1::StepResponse& response)
    : services_(services),
      record_("steadystate.v1.GenerationService/Step", context,
              services.metrics),
      response_(response) {}

void StepCall::Submit(const v1::StepRequest& request) {
  absl::StatusOr<StepRequest> step = services_.converter.ToStepRequest(request);
  if (!step.ok()) {
    Answer(std::move(step).status());
    return;
  }
  session_ = request.session();
  step->writer = services_.engine.NewWriter();
  step->deadline = record_.deadline();
  id_ = services_.engine.Step(
      *std::move(step),
      [this](const absl::StatusOr<StepResult>& result) { Answer(result); });
}

void StepCall::Answer(const absl::StatusOr<StepResult>& result) {
  if (result.ok()) ToProto(*result, session_, response_);
  Finish(record_.End(result.status()));
}

void StepCall::OnCancel() { services_.engine.Cancel(id_); }

void StepCall::OnDone() { delete this; }

}  // namespace steadystate
