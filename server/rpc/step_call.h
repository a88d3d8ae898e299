#ifndef STEADYSTATE_SERVER_RPC_STEP_CALL_H_
#define STEADYSTATE_SERVER_RPC_STEP_CALL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// One unary Step call. It is finished by the engine's answer and only by that,
// so the answer never comes too late. The object owns itself from Start to
// OnDone; gRPC calls that after OnCancel, and neither before Start's caller has
// returned. The engine shares it for as long as it has the callback: the call
// may be over before Answer returns.
class StepCall final : public grpc::ServerUnaryReactor,
                       public std::enable_shared_from_this<StepCall> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  static StepCall* Start(ServiceContext& services,
                         grpc::CallbackServerContext& context,
                         const v1::StepRequest& request,
                         v1::StepResponse& response);

  void OnCancel() override;
  void OnDone() override;

 private:
  StepCall(ServiceContext& services, grpc::CallbackServerContext& context,
           v1::StepResponse& response);
  void Submit(const grpc::CallbackServerContext& context,
              const v1::StepRequest& request);
  void Answer(const absl::StatusOr<StepResult>& result);

  ServiceContext& services_;
  CallRecord record_;
  v1::StepResponse& response_;
  std::shared_ptr<StepCall> self_;  // from Start to OnDone
  std::string session_;             // "sessions/{id}"
  RequestId id_ = 0;                // constant once Start has returned
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_CALL_H_
