#ifndef STEADYSTATE_CLIENT_LOAD_SESSION_POOL_H_
#define STEADYSTATE_CLIENT_LOAD_SESSION_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "client/load/load_clock.h"
#include "client/load/load_session.h"
#include "client/mutex.h"

namespace steadystate::client {

// A request that is to begin now.
struct Turn {
  LoadSession* session = nullptr;
  LoadTime intended;
};

// Decides which session begins which request, and when. In a closed loop each
// session begins its next request when the last one has ended. In an open loop
// requests arrive at their own times; one that finds no free session waits in
// a bounded backlog, and keeps the time at which it was to be sent.
//
// Thread-safe: requests arrive on the tester's thread and end on gRPC's.
class SessionPool {
 public:
  // Requests that may wait. As many at 100,000 requests/s are ten seconds.
  static constexpr size_t kMaxBacklog = size_t{1} << 20;

  // How things stand.
  struct Counts {
    size_t alive = 0;    // sessions that are not retired
    size_t busy = 0;     // of them, those with a request under way
    size_t backlog = 0;  // requests that wait
  };

  explicit SessionPool(bool open_loop, size_t max_backlog = kMaxBacklog)
      : open_loop_(open_loop), max_backlog_(max_backlog) {}

  // Adds a session, or gives back a broken one. The request that it begins now,
  // if any. The session must outlive the pool's use of it.
  std::optional<Turn> Add(LoadSession& session, LoadTime now);
  std::optional<Turn> GiveBack(LoadSession& session, LoadTime now);
  // A broken session cannot be mended.
  void Retire();

  // Open loop: a request arrives. The one that begins now, if any.
  std::optional<Turn> Arrive(LoadTime intended);

  // A request ended. The one that its session begins now, if any.
  std::optional<Turn> Finish(LoadSession& session, SessionFate fate,
                             LoadTime now);

  // A session that needs mending, or nullptr.
  LoadSession* TakeBroken();
  // Waits until there is one, or the time has come. False once mending is over.
  bool WaitForBroken(LoadTime time);
  void StopMending();

  // No new requests: what waits may still begin, unless `cut`. Returns when the
  // requests that were so cut off were to be sent.
  std::deque<LoadTime> Stop(bool cut);
  // True if requests under way are to end at the next token.
  bool cut() const { return cut_; }

  Counts counts() const;
  // The largest backlog so far, and how many requests it had no room for or
  // were still in it when it was cut.
  size_t peak_backlog() const;
  uint64_t unsent() const;

  // Waits until all sessions are retired, nothing is under way after Stop, or
  // the time has come.
  void WaitUntil(LoadTime time);

 private:
  std::optional<Turn> BeginNext(LoadSession& session, LoadTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Quiet() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const bool open_loop_;
  const size_t max_backlog_;
  std::atomic<bool> cut_ = false;

  mutable Mutex mutex_;
  CondVar changed_;
  CondVar broken_changed_;
  std::deque<LoadSession*> free_ ABSL_GUARDED_BY(mutex_);
  std::deque<LoadSession*> broken_ ABSL_GUARDED_BY(mutex_);
  std::deque<LoadTime> backlog_ ABSL_GUARDED_BY(mutex_);
  Counts counts_ ABSL_GUARDED_BY(mutex_);  // backlog is not kept
  size_t peak_backlog_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool mending_over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_SESSION_POOL_H_
