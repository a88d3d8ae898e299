#ifndef STEADYSTATE_SERVER_RPC_HEARTBEAT_WATCH_H_
#define STEADYSTATE_SERVER_RPC_HEARTBEAT_WATCH_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/metrics/metrics.h"

namespace steadystate {

// How old the heartbeat of an engine becomes whose compute thread does not move
// any more. Of a healthy one it is not much older than a second.
inline constexpr absl::Duration kMaxHeartbeatAge = absl::Seconds(5);

// Looks at the engine's heartbeat twice a second, on a thread of its own that
// waits for nobody: tells the metrics its age, and a listener when it has
// become too old and when it moves again. Thread-safe.
class HeartbeatWatch {
 public:
  // `on_change(alive)` is called on the watch's thread, for the first time when
  // the heartbeat is too old; it must not block. All outlive the watch, or
  // Stop.
  HeartbeatWatch(const Engine& engine, Metrics& metrics,
                 std::function<void(bool alive)> on_change);
  ~HeartbeatWatch() { Stop(); }
  HeartbeatWatch(const HeartbeatWatch&) = delete;
  HeartbeatWatch& operator=(const HeartbeatWatch&) = delete;

  // No call comes afterwards. Not to be called by the listener.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Look();
  bool WaitForNext() ABSL_LOCKS_EXCLUDED(mutex_);

  const Engine& engine_;
  Metrics& metrics_;
  const std::function<void(bool alive)> on_change_;
  bool alive_ = true;  // the watch's thread's

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_HEARTBEAT_WATCH_H_
