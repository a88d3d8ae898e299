#ifndef STEADYSTATE_SERVER_RPC_TEXT_THREAD_H_
#define STEADYSTATE_SERVER_RPC_TEXT_THREAD_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/base/mutex.h"

namespace steadystate {

// Texts up to this many bytes become tokens on gRPC's own threads: that takes a
// millisecond at most.
inline constexpr size_t kShortTextBytes = size_t{4} << 10;

// One thread for what takes long with a text: turning it into tokens, seconds
// for megabytes. gRPC has but two threads on a small machine, and while they
// are busy all streams stand still. Thread-safe.
class TextThread {
 public:
  // Called once, on the thread: with OK when its turn has come, or with why it
  // shall not do what it is for.
  using Work = std::function<void(const absl::Status& turn)>;

  // Work that may wait. Each keeps a message in memory.
  static constexpr size_t kMaxWaiting = 64;

  TextThread();
  // Tells what waits that it shall not be done.
  ~TextThread();

  // Queues `work`. QUEUE_FULL, DRAINING: it is not called.
  absl::Status Run(Work work);

  // From now on refuses work with DRAINING, also what waits.
  void Drain();

 private:
  void Loop();

  Mutex mutex_;
  CondVar changed_;
  std::deque<Work> waiting_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_TEXT_THREAD_H_
