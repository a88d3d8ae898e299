#ifndef STEADYSTATE_SERVER_ENGINE_DESK_H_
#define STEADYSTATE_SERVER_ENGINE_DESK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/engine/backlog.h"
#include "server/engine/request.h"
#include "server/session/session.h"

namespace steadystate {

// Answers that wait until the log has what they tell, or until the store does
// not have what they have ended.
struct HeldAnswers {
  std::vector<std::unique_ptr<Request>> ended;
  std::vector<Request*> going_on;  // of stage kHeld
  uint64_t round = 0;              // 0: none
  // For ReturnWindow: of the batch that is answered, if it was one of decode.
  absl::Duration batch_time;
  size_t wanted = 0;
};

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

  // What answers waited for has come to pass, or why it may not have.
  struct Written {
    std::shared_ptr<HeldAnswers> answers;
    absl::Status status;
  };

  explicit Desk(const Backlog::Limits& limits) : backlog(limits) {}

  // Says that something was noted. Costs nothing while the compute thread is
  // busy: it looks before it waits.
  void WakeCompute() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    noted = true;
    if (std::exchange(wake_at, 0) > 0) work.SignalOne();
  }

  // The session has been deleted: its requests end.
  void Orphan(const Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    for (const auto& request : session.lane->requests) {
      orphaned.push_back(request->id);
    }
    WakeCompute();
  }

  // The keeper has done what was ordered for the session, which has requests.
  void NoteReturned(const Session& session, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mutex) {
    const MutexLock lock(mutex);
    returned.push_back({session.lane->requests.front()->id, std::move(status)});
    WakeCompute();
  }

  // The session cannot go on before it has been with the keeper. If it is
  // paused, somebody has to look.
  void NoteDue(const Session& session) ABSL_LOCKS_EXCLUDED(mutex) {
    const MutexLock lock(mutex);
    if (session.lane == nullptr) return;
    Request& first = *session.lane->requests.front();
    if (first.wake_requested) return;
    first.wake_requested = true;
    woken.push_back(first.id);
    WakeCompute();
  }
  void NoteWritten(std::shared_ptr<HeldAnswers> answers, absl::Status status)
      ABSL_LOCKS_EXCLUDED(mutex) {
    const MutexLock lock(mutex);
    written.push_back({std::move(answers), std::move(status)});
    any_written = true;
    WakeCompute();
  }

  Mutex mutex;
  CondVar work;  // something was noted for the compute thread
  CondVar idle;  // unanswered became 0
  std::atomic<bool> noted = false;  // something, for the compute thread

  std::atomic<bool> any_written = false;  // !written.empty()

  Backlog backlog ABSL_GUARDED_BY(mutex);
  size_t unanswered ABSL_GUARDED_BY(mutex) = 0;    // callbacks included
  size_t with_keeper ABSL_GUARDED_BY(mutex) = 0;   // requests
  size_t with_journal ABSL_GUARDED_BY(mutex) = 0;  // HeldAnswers
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
  // Their sessions end with them.
  std::vector<WriterId> ended_writers ABSL_GUARDED_BY(mutex);
  std::vector<Return> returned ABSL_GUARDED_BY(mutex);  // from the keeper
  std::vector<Written> written ABSL_GUARDED_BY(mutex);  // from the journal
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_DESK_H_
