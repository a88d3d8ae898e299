#ifndef STEADYSTATE_SERVER_RPC_WORK_ORDER_H_
#define STEADYSTATE_SERVER_RPC_WORK_ORDER_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/engine/engine.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"

namespace steadystate {

// The work that one call has the engine do, which its client may give up at any
// time, also while it is being submitted. Thread-safe.
class WorkOrder {
 public:
  // `engine` outlives it.
  explicit WorkOrder(Engine& engine) : engine_(engine) {}

  // Once. As Engine::Submit; `receiver` may have been answered by then.
  absl::Status Submit(WorkRequest work,
                      std::shared_ptr<Receiver<WorkRequest>> receiver)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    STEADYSTATE_ASSIGN_OR_RETURN(
        const RequestId submitted,
        engine_.Submit(std::move(work), std::move(receiver)));
    MayPark("WorkOrder::Submit");
    bool cancel = false;
    {
      const MutexLock lock(mutex_);
      id_ = submitted;
      cancel = cancelled_;
    }
    if (cancel) engine_.Cancel(submitted);
    return absl::OkStatus();
  }

  // The client has gone: nobody wants it done that has not begun.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_) {
    RequestId id = 0;
    {
      const MutexLock lock(mutex_);
      cancelled_ = true;
      id = id_;
    }
    engine_.Cancel(id);
  }

 private:
  Engine& engine_;
  Mutex mutex_;
  RequestId id_ ABSL_GUARDED_BY(mutex_) = 0;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_WORK_ORDER_H_
