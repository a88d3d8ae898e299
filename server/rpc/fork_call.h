#ifndef STEADYSTATE_SERVER_RPC_FORK_CALL_H_
#define STEADYSTATE_SERVER_RPC_FORK_CALL_H_

#include <cstdint>
#include <memory>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// One ForkSession call: work for the engine, whose answer finishes the call.
// The object owns itself from Start to OnDone; gRPC calls that after OnCancel,
// and neither before Start's caller has returned. The engine shares it until it
// has answered. The engine is never called with mutex_ held.
class ForkCall final : public grpc::ServerUnaryReactor,
                       public Receiver<WorkRequest>,
                       public std::enable_shared_from_this<ForkCall> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  static ForkCall* Start(ServiceContext& services,
                         grpc::CallbackServerContext& context,
                         const v1::ForkSessionRequest& request,
                         v1::ForkSessionResponse& response);

  void OnCancel() override;
  void OnDone() override;
  void OnAnswers(std::span<const Answer<WorkRequest>> answers) override {
    End(answers.front().end->status());
  }

 private:
  ForkCall(ServiceContext& services, grpc::CallbackServerContext& context,
           v1::ForkSessionResponse& response);
  absl::Status Submit(const grpc::CallbackServerContext& context,
                      const v1::ForkSessionRequest& request);
  void End(const absl::Status& status);

  ServiceContext& services_;
  CallRecord record_;
  v1::ForkSessionResponse& response_;
  const std::shared_ptr<Forks> forks_ = std::make_shared<Forks>();
  std::shared_ptr<ForkCall> self_;  // from Start to OnDone

  Mutex mutex_;
  RequestId id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_FORK_CALL_H_
