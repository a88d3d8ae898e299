#ifndef STEADYSTATE_SERVER_RPC_WATCH_CALL_H_
#define STEADYSTATE_SERVER_RPC_WATCH_CALL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/rpc/call_progress.h"
#include "server/rpc/call_record.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/service_context.h"
#include "server/rpc/session_watchers.h"
#include "server/session/session_events.h"
#include "steadystate/v1/session.pb.h"

namespace steadystate {

// One WatchSessions call: a number among the events up to which its client has
// been told, and one message at most, room for which it holds from beginning to
// end (OutboundBudget). Messages are made by the thread of SessionWatchers. A
// client that does not read is told no more; when it reads on it is told the
// rest, or that the rest is forgotten.
//
// The object owns itself from Start to OnDone, which gRPC calls after
// OnWriteDone and OnCancel, and which waits for a Drain; the budget shares it
// until there is room, SessionWatchers from Add on, until Remove and the end of
// a Look. None of them is called with mutex_ held.
class WatchCall final
    : public grpc::ServerWriteReactor<v1::WatchSessionsResponse>,
      public OpenStream,
      public OutboundBudget::Waiter,
      public SessionWatchers::Watcher,
      public std::enable_shared_from_this<WatchCall> {
 public:
  // The most events of a message; what these take in memory, as parts of it and
  // as gRPC keeps them.
  static constexpr size_t kMostEvents = 32;
  static constexpr size_t kMessageMemory = size_t{24} << 10;

  // Called within the method's handler: gRPC reacts only after it returned.
  static WatchCall* Start(ServiceContext& services,
                          grpc::CallbackServerContext& context,
                          const v1::WatchSessionsRequest& request);

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Drain() override;
  void OnOutboundRoom() override;
  void Look() override;

 private:
  // What to do once mutex_ is released.
  struct Actions {
    bool write = false;
    bool ask = false;  // for another look
    std::optional<absl::Status> finish;
  };

  WatchCall(ServiceContext& services, grpc::CallbackServerContext& context);
  absl::Status Prepare(const v1::WatchSessionsRequest& request);
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  bool MayFill() ABSL_LOCKS_EXCLUDED(mutex_);
  bool Fill(const SessionEvents::Page& page);
  void NoteEnd(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Actions Decide(bool has_message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceContext& services_;
  const SessionEvents& events_;
  CallRecord record_;
  const ClientId client_;
  std::shared_ptr<WatchCall> self_;  // from Start to OnDone
  OutboundBudget::Account account_;

  // Of Start, then of Look.
  SessionEvents::Filter filter_;
  uint64_t place_ = 0;            // the next event to be looked at
  std::optional<uint64_t> told_;  // what the last cursor stands for
  // Of Look, and of the outstanding write.
  v1::WatchSessionsResponse message_;

  Mutex mutex_;
  CallProgress progress_ ABSL_GUARDED_BY(mutex_);
  // Somebody else is at work for the call, which does not end before.
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  // There may be more to tell when that is over, or the outstanding write.
  bool asks_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_WATCH_CALL_H_
