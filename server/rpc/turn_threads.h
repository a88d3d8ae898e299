#ifndef STEADYSTATE_SERVER_RPC_TURN_THREADS_H_
#define STEADYSTATE_SERVER_RPC_TURN_THREADS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/fair_share.h"

namespace steadystate {

// Names a piece of work that may wait. 0: none.
using TurnTicket = uint64_t;

// What may wait, of all clients together, and what every client may have
// whatever others do; of the rest a client may have a part of what is then left
// (FairShare).
struct TurnBounds {
  const char* name;           // the threads', as tools show it
  absl::string_view what;     // for errors: "long texts"
  absl::string_view instead;  // for errors: what else the client may do
  // Beyond these bytes work has a second thread; SIZE_MAX: there is but one.
  size_t long_bytes = 0;
  size_t waiting = 0;
  size_t own_waiting = 0;
  size_t bytes = 0;
  size_t own_bytes = 0;
  size_t parts = 0;
};

// Threads for what takes long with a request, so that it takes none of gRPC's:
// those are but two on a small machine, and while they are busy all streams
// stand still.
//
// There may be two, one for long work and one for the rest, so that a few
// kilobytes never wait behind megabytes. Each serves clients in turn: a client
// that sends twenty texts makes others wait for one of them. Thread-safe.
class TurnThreads {
 public:
  // Called once: on a thread, with OK when its turn has come, or with why it
  // shall not be done; or within Forget.
  using Work = std::function<void(const absl::Status& turn)>;

  // Told how much waits, whenever that changes, with a lock held.
  using Report = std::function<void(size_t waiting)>;

  explicit TurnThreads(const TurnBounds& bounds, Report report = nullptr);
  // Tells what waits that it shall not be done.
  ~TurnThreads();

  // Queues the work on something of `bytes`. QUEUE_FULL, DRAINING: it is not
  // called.
  absl::StatusOr<TurnTicket> Run(ClientId client, size_t bytes, Work work);

  // Calls work that still waits with CANCELLED, at once, and forgets it; else
  // does nothing. REQUIRES: nothing is locked that the work may lock.
  void Forget(TurnTicket ticket);

  // From now on refuses work with DRAINING, also what waits.
  void Drain();

 private:
  struct Job {
    TurnTicket ticket = 0;
    size_t bytes = 0;
    Work work;
  };
  using Jobs = std::deque<Job>;

  struct Lane {
    CondVar changed;
    std::deque<ClientId> turns;  // those that have jobs, next one first
    absl::flat_hash_map<ClientId, Jobs> jobs;
  };

  absl::Status CheckRoom(ClientId client, size_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job of the client whose turn it is, which then is the last in turn.
  Job TakeNext(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Job TakeOut(Lane& lane, TurnTicket ticket)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes a job, and its client from those in turn if it was the last.
  Job Remove(Lane& lane, ClientId client, const Jobs::iterator& place)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop(size_t lane_index);

  const TurnBounds bounds_;
  const Report report_;
  Mutex mutex_;
  // Of short work, and of long.
  std::vector<Lane> lanes_ ABSL_GUARDED_BY(mutex_);
  FairShare waiting_ ABSL_GUARDED_BY(mutex_);
  FairShare waiting_bytes_ ABSL_GUARDED_BY(mutex_);
  TurnTicket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::vector<std::thread> threads_;  // one a lane; last: they use all this
};

// Runs `work` on one of gRPC's threads, soon: for what a callback on another
// thread, the engine's for instance, may not do. `work` keeps alive what it
// uses. Thread-safe.
void RunSoon(std::function<void()> work);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_TURN_THREADS_H_
