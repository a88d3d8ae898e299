#ifndef STEADYSTATE_SERVER_RPC_SESSION_WATCHERS_H_
#define STEADYSTATE_SERVER_RPC_SESSION_WATCHERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/metrics/metrics.h"
#include "server/rpc/fair_share.h"
#include "server/session/session_events.h"

namespace steadystate {

// Lets those who watch sessions look for events: one thread for all of them, so
// that neither the threads on which things happen to sessions nor gRPC's make
// messages. After events it waits a moment before it looks for the next ones,
// so that what happens together is told together; it sleeps while nothing
// happens. Thread-safe.
//
// Locks: watchers_mutex_ and mutex_ are never held together, nothing is locked
// under either of them, and things that happen to sessions wait for mutex_
// alone.
class SessionWatchers final : public SessionEvents::Listener {
 public:
  // The most that may watch, beside one of each connection, which it always may
  // have; of the rest a connection has an eighth of what it then leaves to
  // others at most.
  static constexpr size_t kMost = 1024;
  static constexpr size_t kOwn = 1;
  static constexpr size_t kParts = 8;

  class Watcher {
   public:
    virtual ~Watcher() = default;
    // There may be events that it has not seen. Called by the thread, which
    // holds no lock.
    virtual void Look() = 0;
  };

  // The events outlive the first Stop, the metrics all of it.
  SessionWatchers(SessionEvents& events, Metrics& metrics);
  ~SessionWatchers() override { Stop(); }
  SessionWatchers(const SessionWatchers&) = delete;
  SessionWatchers& operator=(const SessionWatchers&) = delete;

  // From now on the watcher looks, soon for the first time, and is shared,
  // until Remove. QUEUE_FULL with a retry hint: there are too many.
  absl::Status Add(ClientId client, std::shared_ptr<Watcher> watcher)
      ABSL_LOCKS_EXCLUDED(watchers_mutex_, mutex_);
  // It may look once more. Does nothing if it was not added.
  void Remove(ClientId client, const std::shared_ptr<Watcher>& watcher)
      ABSL_LOCKS_EXCLUDED(watchers_mutex_, mutex_);

  // The watcher looks soon, whether there are new events or not.
  void Ask(std::shared_ptr<Watcher> watcher) ABSL_LOCKS_EXCLUDED(mutex_);

  // Nobody looks any more, and the events are let go of: they may end then. Not
  // to be called by a watcher, nor by two threads at once; a second call does
  // nothing.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // SessionEvents::Listener.
  void OnEvent() override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Round = std::vector<std::shared_ptr<Watcher>>;
  using Time = std::chrono::steady_clock::time_point;

  // By whom a look is wanted: after events by all, before `earliest` by those
  // alone that have asked for it, and by nobody at the end.
  enum class Wanted : uint8_t { kByAll, kBySome, kByNobody };

  void Loop();
  Wanted WaitUntilWanted(Time earliest, Round& asking)
      ABSL_LOCKS_EXCLUDED(mutex_);
  Round All() ABSL_LOCKS_EXCLUDED(watchers_mutex_);

  SessionEvents& events_;
  Metrics& metrics_;

  Mutex watchers_mutex_;
  std::set<std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(watchers_mutex_);
  FairShare share_ ABSL_GUARDED_BY(watchers_mutex_);

  Mutex mutex_;
  CondVar changed_;
  bool news_ ABSL_GUARDED_BY(mutex_) = false;
  size_t watching_ ABSL_GUARDED_BY(mutex_) = 0;
  Round asking_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_SESSION_WATCHERS_H_
