#include "server/rpc/fork_call.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/rpc/answer.h"
#include "server/rpc/connection.h"
#include "server/rpc/convert.h"
#include "server/session/session_info.h"

namespace steadystate {

ForkCall* ForkCall::Start(ServiceContext& services,
                          grpc::CallbackServerContext& context,
                          const v1::ForkSessionRequest& request,
                          v1::ForkSessionResponse& response) {
  const std::shared_ptr<ForkCall> call(
      new ForkCall(services, context, response));
  call->self_ = call;
  const absl::Status submitted = call->Submit(context, request);
  if (!submitted.ok()) call->End(submitted);
  return call.get();
}

ForkCall::ForkCall(ServiceContext& services,
                   grpc::CallbackServerContext& context,
                   v1::ForkSessionResponse& response)
    : services_(services),
      record_("steadystate.v1.SessionService/ForkSession", context, services),
      response_(response) {}

absl::Status ForkCall::Submit(const grpc::CallbackServerContext& context,
                              const v1::ForkSessionRequest& request) {
  STEADYSTATE_ASSIGN_OR_RETURN(const absl::string_view id,
                               ParseSessionName("name", request.name()));
  STEADYSTATE_ASSIGN_OR_RETURN(ForkOptions options,
                               services_.converter.ToForkOptions(request));
  WorkRequest work = services_.engine.ForkWork(std::move(options), forks_);
  work.session = std::string(id);
  work.writer = services_.engine.NewWriter();
  work.client = ConnectionOf(context);
  work.deadline = record_.deadline();
  if (request.has_expected_position()) {
    work.expected_position = request.expected_position();
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      const RequestId submitted,
      services_.engine.Submit(std::move(work), shared_from_this()));
  MayPark("ForkCall::Submit");
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    id_ = submitted;
    cancel = cancelled_;
  }
  if (cancel) services_.engine.Cancel(submitted);
  return absl::OkStatus();
}

void ForkCall::End(const absl::Status& status) {
  if (status.ok()) {
    for (const std::string& id : forks_->ids) {
      response_.add_sessions(SessionName(id));
    }
    response_.set_position(forks_->position);
  }
  MayPark("ForkCall::End");
  Finish(record_.End(status));
  MayPark("ForkCall::End, finished");
}

void ForkCall::OnCancel() {
  RequestId id = 0;
  {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    id = id_;
  }
  services_.engine.Cancel(id);
}

void ForkCall::OnDone() {
  const std::shared_ptr<ForkCall> self = std::move(self_);
}

}  // namespace steadystate
