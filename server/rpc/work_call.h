#ifndef STEADYSTATE_SERVER_RPC_WORK_CALL_H_
#define STEADYSTATE_SERVER_RPC_WORK_CALL_H_

#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/service_context.h"
#include "server/rpc/work_order.h"

namespace steadystate {

// One unary call that is work for the engine, whose answer finishes the call.
// The object owns itself from Start to OnDone; gRPC calls that after OnCancel,
// and neither before Start's caller has returned. The engine shares it until it
// has answered. The engine is never called with a lock held.
class WorkCall final : public grpc::ServerUnaryReactor,
                       public Receiver<WorkRequest>,
                       public std::enable_shared_from_this<WorkCall> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  //   work      or why there is none; writer, client and deadline are set here
  //   set_done  fills in the response, when the work is done
  static WorkCall* Start(absl::string_view method, ServiceContext& services,
                         grpc::CallbackServerContext& context,
                         absl::StatusOr<WorkRequest> work,
                         std::function<void()> set_done);

  void OnCancel() override { order_.Cancel(); }
  void OnDone() override;
  void OnAnswers(std::span<const Answer<WorkRequest>> answers) override;

 private:
  WorkCall(absl::string_view method, ServiceContext& services,
           grpc::CallbackServerContext& context,
           std::function<void()> set_done);
  void End(const absl::Status& status);

  CallRecord record_;
  std::function<void()> set_done_;
  std::shared_ptr<WorkCall> self_;  // from Start to OnDone
  WorkOrder order_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_WORK_CALL_H_
