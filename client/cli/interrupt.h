#ifndef STEADYSTATE_CLIENT_CLI_INTERRUPT_H_
#define STEADYSTATE_CLIENT_CLI_INTERRUPT_H_

#include <signal.h>

#include <atomic>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "client/mutex.h"
#include "steadystate/call.h"

namespace steadystate::client {

// While it exists, SIGINT, SIGTERM and SIGHUP (unless that is ignored) are
// handled instead of ending the process, by a thread of its own, outside any
// signal handler.
//
// REQUIRES: made before the process starts other threads, and the only one.
class Interrupt {
 public:
  using Handler = std::function<void(int signal)>;

  explicit Interrupt(Handler handler);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Handles later signals otherwise; waits for one that is being handled.
  // Returns how they were handled before. Thread-safe.
  Handler Exchange(Handler handler);

 private:
  void Watch();

  const sigset_t signals_;
  Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> stopping_ = false;
  std::thread watcher_;
};

// Cancels the calls of `canceller`, so that a command can clean up; a second
// signal ends the process at once with status 130. `canceller` must outlive the
// result.
Interrupt::Handler CancelCalls(Canceller& canceller);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_INTERRUPT_H_
