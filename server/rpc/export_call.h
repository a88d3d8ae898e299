#ifndef STEADYSTATE_SERVER_RPC_EXPORT_CALL_H_
#define STEADYSTATE_SERVER_RPC_EXPORT_CALL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/engine/receiver.h"
#include "server/rpc/call_progress.h"
#include "server/rpc/call_record.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/pace.h"
#include "server/rpc/service_context.h"
#include "server/rpc/work_order.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// One ExportSession call: waits until there is room for the snapshot among the
// answers of all (OutboundBudget), lets the engine's keeper write it down, and
// sends it in chunks, as fast as the client takes them; while others wait for
// room the client has to keep a Pace. The session goes on meanwhile; the
// snapshot is held until its last chunk is sent.
//
// The object owns itself from Start to OnDone, which gRPC calls after
// OnWriteDone and OnCancel, and which waits for a Tick; the budget and the
// engine share it for as long as they have something to tell it. Neither is
// called with mutex_ held, but for the budget's accounts.
class ExportCall final
    : public grpc::ServerWriteReactor<v1::ExportSessionResponse>,
      public OpenStream,
      public OutboundBudget::Waiter,
      public Receiver<WorkRequest>,
      public std::enable_shared_from_this<ExportCall> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  static ExportCall* Start(ServiceContext& services,
                           grpc::CallbackServerContext& context,
                           const v1::ExportSessionRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  // What is being sent is small enough to be sent to the end.
  void Drain() override {}
  void Tick(SteadyTime now) override;
  void OnOutboundRoom() override;
  void OnAnswers(std::span<const Answer<WorkRequest>> answers) override;

 private:
  // What to do once mutex_ is released.
  struct Actions {
    bool write = false;
    std::optional<absl::Status> finish;
  };

  ExportCall(ServiceContext& services, grpc::CallbackServerContext& context);
  absl::Status Prepare(const v1::ExportSessionRequest& request);
  void Submit() ABSL_LOCKS_EXCLUDED(mutex_);
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceContext& services_;
  grpc::CallbackServerContext& context_;
  CallRecord record_;
  std::shared_ptr<ExportCall> self_;  // from Start to OnDone
  WorkRequest work_;                  // until it is submitted
  const std::shared_ptr<Engine::Export> export_ =
      std::make_shared<Engine::Export>();
  WorkOrder order_;
  OutboundBudget::Account account_;
  v1::ExportSessionResponse message_;  // of the outstanding write

  Mutex mutex_;
  CallProgress progress_ ABSL_GUARDED_BY(mutex_);
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;  // or about to be
  size_t sent_ ABSL_GUARDED_BY(mutex_) = 0;         // bytes, or being written
  // The engine's, or the refusal: set once nothing comes from elsewhere.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  Pace pace_ ABSL_GUARDED_BY(mutex_);  // of what is being written
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_EXPORT_CALL_H_
