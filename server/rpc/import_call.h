#ifndef STEADYSTATE_SERVER_RPC_IMPORT_CALL_H_
#define STEADYSTATE_SERVER_RPC_IMPORT_CALL_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/receiver.h"
#include "server/rpc/call_progress.h"
#include "server/rpc/call_record.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/pace.h"
#include "server/rpc/service_context.h"
#include "server/rpc/work_order.h"
#include "server/session/session_info.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// One ImportSession call: collects a snapshot, whose size the first message
// names, once there is room for it (as an answer has it, OutboundBudget); when
// it is complete, the engine makes a session of it.
//
// A message is in the hands of one thread at a time: gRPC's that brings it, or,
// where it had to wait for room, one for what comes later. The call is finished
// exactly once, when the engine has nothing to tell it any more. The object
// owns itself from Start to OnDone, and is there for all of a callback because
// of
//   OnReadDone, OnCancel: gRPC, which calls OnDone after them;
//   Drain, Tick: OpenStreams, where OnDone waits for them;
//   OnOutboundRoom, OnAnswers: their callers' reference.
// Lock order: neither engine nor budget is called with mutex_ held.
class ImportCall final : public grpc::ServerReadReactor<grpc::ByteBuffer>,
                         public OpenStream,
                         public OutboundBudget::Waiter,
                         public Receiver<WorkRequest>,
                         public std::enable_shared_from_this<ImportCall> {
 public:
  static ImportCall* Start(ServiceContext& services,
                           grpc::CallbackServerContext& context,
                           v1::Session& response);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Drain() override;
  void Tick(SteadyTime now) override;
  void OnOutboundRoom() override;
  void OnAnswers(std::span<const Answer<WorkRequest>> answers) override;

 private:
  // What to do once mutex_ is released.
  struct Actions {
    bool read = false;
    std::optional<absl::Status> finish;
  };

  ImportCall(ServiceContext& services, grpc::CallbackServerContext& context,
             v1::Session& response);

  // Of the message in message_, the caller's. False: it waits for room.
  absl::StatusOr<bool> TakeFirst();
  absl::Status ReadMessage();
  absl::Status Append();
  void Handle();
  void Submit();
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call before the engine has anything to do with it, unless it has.
  void GiveUp(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(Actions actions) ABSL_LOCKS_EXCLUDED(mutex_);
  void Proceed() ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceContext& services_;
  grpc::CallbackServerContext& context_;
  CallRecord record_;
  v1::Session& response_;
  std::shared_ptr<ImportCall> self_;  // from Start to OnDone
  const std::shared_ptr<SessionInfo> created_ = std::make_shared<SessionInfo>();
  WorkOrder order_;
  OutboundBudget::Account account_;

  // Of the outstanding read, then of whoever has the message.
  grpc::ByteBuffer received_;
  v1::ImportSessionRequest message_;
  bool begun_ = false;  // the first message has been read
  SessionOptions options_;
  size_t expected_bytes_ = 0;
  std::string snapshot_;

  ReadStarts starts_;
  Mutex mutex_;
  CallProgress progress_ ABSL_GUARDED_BY(mutex_);
  bool submitted_ ABSL_GUARDED_BY(mutex_) = false;  // or about to be
  // Set once nothing comes from the engine.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  Pace pace_ ABSL_GUARDED_BY(mutex_);  // of what comes
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_IMPORT_CALL_H_
