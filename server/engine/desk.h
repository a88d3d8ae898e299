#ifndef STEADYSTATE_SERVER_ENGINE_DESK_H_
#define STEADYSTATE_SERVER_ENGINE_DESK_H_

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/base/mutex.h"
#include "server/engine/backlog.h"
#include "server/engine/request.h"
#include "server/session/session.h"

namespace steadystate {

// What the engine's callers and its compute thread share: the requests that
// have been accepted, and notes of what callers want. Callers note things and
// go; the compute thread takes up what was noted. The lock is never held while
// anything takes long.
//
// Lock order: `mutex`, then SessionKeeper's.
struct Desk {
  // A request that was with the keeper, and how it went there.
  struct Return {
    RequestId id;
    absl::Status status;
  };

  explicit Desk(const Backlog::Limits& limits) : backlog(limits) {}

  // Says that something was noted. Costs nothing while the compute thread is
  // busy: it looks before it waits.
  void WakeCompute() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    noted = true;
    if (std::exchange(wake_at, 0) > 0) work.SignalOne();
  }

  // The keeper has done what was ordered for the session, which has requests.
  void NoteReturned(const Session& session, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mutex) {
    const MutexLock lock(mutex);
    returned.push_back({session.lane->requests.front()->id, std::move(status)});
    WakeCompute();
  }

  Mutex mutex;
  CondVar work;  // something was noted for the compute thread
  CondVar idle;  // unanswered became 0
  std::atomic<bool> noted = false;  // something, for the compute thread

  Backlog backlog ABSL_GUARDED_BY(mutex);
  size_t unanswered ABSL_GUARDED_BY(mutex) = 0;   // callbacks included
  size_t with_keeper ABSL_GUARDED_BY(mutex) = 0;  // requests
  bool draining ABSL_GUARDED_BY(mutex) = false;
  bool aborting ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  // As many requests in `starting` wake the compute thread; 0: it does not
  // wait.
  size_t wake_at ABSL_GUARDED_BY(mutex) = 0;

  // The notes; each request stands at most once in each.
  std::vector<RequestId> starting ABSL_GUARDED_BY(mutex);  // their turn came
  std::vector<RequestId> joining ABSL_GUARDED_BY(mutex);   // behind others
  std::vector<RequestId> cancelled ABSL_GUARDED_BY(mutex);
  std::vector<RequestId> woken ABSL_GUARDED_BY(mutex);
  std::vector<RequestId> orphaned ABSL_GUARDED_BY(mutex);  // session deleted
  std::vector<Return> returned ABSL_GUARDED_BY(mutex);     // from the keeper
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_DESK_H_
