#ifndef STEADYSTATE_SERVER_RPC_STEP_CALL_H_
#define STEADYSTATE_SERVER_RPC_STEP_CALL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// One unary Step call. Where its answer is large it waits until there is room
// for that, unless it is cancelled meanwhile; from then on it is finished by
// the engine's answer and only by that, so the answer never comes too late. The
// object owns itself from Start to OnDone; gRPC calls that after OnCancel, and
// neither before Start's caller has returned. The engine shares it for as long
// as it has the callback, and the budget while it waits: the call may be over
// before Answer returns. Lock order: the engine is never called with mutex_
// held.
class StepCall final : public grpc::ServerUnaryReactor,
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

 private:
  StepCall(ServiceContext& services, grpc::CallbackServerContext& context,
           v1::StepResponse& response);
  void Submit(const grpc::CallbackServerContext& context,
              const v1::StepRequest& request);
  // Hands to the engine a step that there is room for.
  void Begin();
  void Answer(const absl::StatusOr<StepResult>& result);

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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_CALL_H_
