#ifndef STEADYSTATE_SERVER_BASE_MEMORY_TRIMMER_H_
#define STEADYSTATE_SERVER_BASE_MEMORY_TRIMMER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"

namespace steadystate {

// Hands memory that the heap keeps without use back to the system. The heap
// does so by itself only with what lies at its end, so what was needed for a
// moment, for answers that nobody read or for calls that were reset, would be
// kept for good. On a thread of its own, since looking and handing back may
// take tens of milliseconds where there are millions of pieces.
class MemoryTrimmer {
 public:
  // Less than this is not handed back.
  static constexpr uint64_t kWorthWhile = uint64_t{8} << 20;
  static constexpr std::chrono::milliseconds kPeriod{1000};
  // Looks after which it is handed back whether or not more has been found.
  static constexpr int kLooksBetweenTrims = 30;

  // The process' heap: what it keeps without use, in bytes, handed back or not;
  // and how it hands that back.
  struct Heap {
    std::function<uint64_t()> unused;
    std::function<void()> trim;
  };

  // Looks at the process' heap: once a second, or so seldom that looking takes
  // a processor for two percent of the time.
  MemoryTrimmer();
  MemoryTrimmer(Heap heap, std::chrono::milliseconds period);
  ~MemoryTrimmer();

 private:
  void Loop();
  // Looks once, and hands back what two looks have found without use; and once
  // in a while what is without use now.
  void Look();
  // False if it is to end.
  bool Wait(std::chrono::nanoseconds time);

  const Heap heap_;
  const std::chrono::milliseconds period_;
  uint64_t least_ = 0;  // without use since it was last handed back
  uint64_t last_ = 0;   // without use at the last look
  int looks_ = 0;       // since it was last handed back
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_MEMORY_TRIMMER_H_
