#ifndef STEADYSTATE_SERVER_RPC_STANDSTILL_WATCH_H_
#define STEADYSTATE_SERVER_RPC_STANDSTILL_WATCH_H_

#include <pthread.h>

#include <chrono>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/rpc/open_streams.h"

namespace steadystate {

// Tells streams once a second that time has passed, on a thread of its own:
// those whose clients keep others waiting end. Thread-safe.
class StandstillWatch {
 public:
  // Both outlive the watch.
  StandstillWatch(OpenStreams& streams, const Clock& clock)
      : streams_(streams), clock_(clock), thread_([this] { Loop(); }) {}
  ~StandstillWatch() {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
      stopped_.SignalAll();
    }
    thread_.join();
  }
  StandstillWatch(const StandstillWatch&) = delete;
  StandstillWatch& operator=(const StandstillWatch&) = delete;

 private:
  void Loop() {
    pthread_setname_np(pthread_self(), "standstill");  // as tools show it
    while (WaitForNext()) streams_.Tick(clock_.Now());
  }

  bool WaitForNext() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    if (!stop_) stopped_.WaitFor(mutex_, std::chrono::seconds(1));
    return !stop_;
  }

  OpenStreams& streams_;
  const Clock& clock_;
  Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STANDSTILL_WATCH_H_
