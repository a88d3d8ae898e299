#ifndef STEADYSTATE_SERVER_RPC_STEP_CALL_H_
#define STEADYSTATE_SERVER_RPC_STEP_CALL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/service_context.h"

namespace steadystate {

// One unary call of a step, of whatever protocol. Where its answer is large it
// waits until there is room for that, unless it is cancelled meanwhile; from
// then on it is finished by the engine's answer and only by that, so the answer
// never comes too late. The object owns itself from Start to OnDone; gRPC calls
// that after OnCancel, and neither before Start's caller has returned. The
// engine shares it until it has answered, and the budget while it waits: the
// call may be over before End returns. Lock order: the engine is never called
// with mutex_ held.
class StepCall final : public grpc::ServerUnaryReactor,
                       public Receiver<StepRequest>,
                       public OutboundBudget::Waiter,
                       public std::enable_shared_from_this<StepCall> {
 public:
  // Fills in the response, once, on any thread. -> what the call ends with.
  using Respond =
      std::function<absl::Status(const absl::StatusOr<StepResult>&)>;

  // Called within the method's handler: gRPC reacts only after it returned.
  //   method  a full RPC name, a literal
  //   step    or why there is none; client and deadline are set here, and the
  //           writer, one of its own unless it has one
  static StepCall* Start(absl::string_view method, ServiceContext& services,
                         grpc::CallbackServerContext& context,
                         absl::StatusOr<StepRequest> step, Respond respond);

  void OnCancel() override;
  void OnDone() override;
  void OnOutboundRoom() override;
  void OnAnswers(std::span<const Answer<StepRequest>> answers) override {
    End(*answers.front().end);
  }

 private:
  StepCall(absl::string_view method, ServiceContext& services,
           grpc::CallbackServerContext& context, Respond respond);
  void Submit(const grpc::CallbackServerContext& context,
              absl::StatusOr<StepRequest> step);
  // Hands to the engine a step that there is room for.
  void Begin();
  void End(const absl::StatusOr<StepResult>& result);

  ServiceContext& services_;
  CallRecord record_;
  const Respond respond_;
  std::shared_ptr<StepCall> self_;  // from Start to OnDone
  OutboundBudget::Account account_;
  size_t answer_memory_ = 0;  // as far as it is counted

  Mutex mutex_;
  std::optional<StepRequest> waiting_ ABSL_GUARDED_BY(mutex_);
  RequestId id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STEP_CALL_H_
