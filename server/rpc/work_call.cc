#include "server/rpc/work_call.h"

#include <utility>

#include "server/base/parking.h"
#include "server/rpc/connection.h"

namespace steadystate {

WorkCall* WorkCall::Start(absl::string_view method, ServiceContext& services,
                          grpc::CallbackServerContext& context,
                          absl::StatusOr<WorkRequest> work,
                          std::function<void()> set_done) {
  const std::shared_ptr<WorkCall> call(
      new WorkCall(method, services, context, std::move(set_done)));
  call->self_ = call;
  absl::Status submitted = work.status();
  if (work.ok()) {
    work->writer = services.engine.NewWriter();
    work->client = ConnectionOf(context);
    work->deadline = call->record_.deadline();
    submitted = call->order_.Submit(*std::move(work), call);
  }
  if (!submitted.ok()) call->End(submitted);
  return call.get();
}

WorkCall::WorkCall(absl::string_view method, ServiceContext& services,
                   grpc::CallbackServerContext& context,
                   std::function<void()> set_done)
    : record_(method, context, services),
      set_done_(std::move(set_done)),
      order_(services.engine) {}

void WorkCall::OnAnswers(std::span<const Answer<WorkRequest>> answers) {
  End(answers.front().end->status());
}

void WorkCall::End(const absl::Status& status) {
  if (status.ok()) set_done_();
  MayPark("WorkCall::End");
  Finish(record_.End(status));
  MayPark("WorkCall::End, finished");
}

void WorkCall::OnDone() {
  const std::shared_ptr<WorkCall> self = std::move(self_);
}

}  // namespace steadystate
