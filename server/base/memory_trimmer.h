#ifndef STEADYSTATE_SERVER_BASE_MEMORY_TRIMMER_H_
#define STEADYSTATE_SERVER_BASE_MEMORY_TRIMMER_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"

namespace steadystate {

// Hands memory that the heap has kept back to the system, once the need for
// much of it is over. The heap does so by itself only with what lies at its
// end, so what was needed for a moment, for answers that nobody read for
// instance, would be kept for good. On a thread of its own, since it may take
// tens of milliseconds. Thread-safe.
class MemoryTrimmer {
 public:
  // It is worth while when so much less is in use than was, and half at least.
  static constexpr int64_t kWorthWhile = int64_t{8} << 20;

  // `trim` hands memory back; by default malloc_trim.
  MemoryTrimmer();
  explicit MemoryTrimmer(std::function<void()> trim);
  ~MemoryTrimmer();

  // So many bytes more, or less, are in use, about. Takes no time.
  void Use(int64_t bytes);

 private:
  bool WorthWhile() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Loop();

  const std::function<void()> trim_;
  Mutex mutex_;
  CondVar changed_;
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t most_ ABSL_GUARDED_BY(mutex_) = 0;  // since the last time
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_MEMORY_TRIMMER_H_
