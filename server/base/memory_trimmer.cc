#include "server/base/memory_trimmer.h"

#include <malloc.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace steadystate {
namespace {

using SteadyClock = std::chrono::steady_clock;

// One part of the time in so many is for looking.
constexpr int kLookingShare = 50;

// The processor's time that this thread has taken. On a busy machine, looking
// takes longer by the clock, but not more from others.
std::chrono::nanoseconds OwnTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) +
         std::chrono::nanoseconds(time.tv_nsec);
}

MemoryTrimmer::Heap ProcessHeap() {
  return {.unused = [] { return uint64_t{mallinfo2().fordblks}; },
          .trim = [] { malloc_trim(0); }};
}

}  // namespace

MemoryTrimmer::MemoryTrimmer() : MemoryTrimmer(ProcessHeap(), kPeriod) {}

MemoryTrimmer::MemoryTrimmer(Heap heap, std::chrono::milliseconds period)
    : heap_(std::move(heap)), period_(period), thread_([this] { Loop(); }) {}

MemoryTrimmer::~MemoryTrimmer() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.SignalOne();
  }
  thread_.join();
}

void MemoryTrimmer::Loop() {
  std::chrono::nanoseconds pause = period_;
  while (Wait(pause)) {
    const std::chrono::nanoseconds start = OwnTime();
    Look();
    pause = std::max<std::chrono::nanoseconds>(
        period_, kLookingShare * (OwnTime() - start));
  }
}

// What has been handed back still counts as kept without use: so it is what is
// more than the least of late that is worth handing back. What was in use at
// the last look may be needed again soon. What has been handed back, used and
// freed between two looks shows in neither: so it is handed back now and then
// in any case.
void MemoryTrimmer::Look() {
  const uint64_t unused = heap_.unused();
  const uint64_t lasting = std::min(unused, last_);
  last_ = unused;
  least_ = std::min(least_, unused);
  const bool due = ++looks_ >= kLooksBetweenTrims && unused >= kWorthWhile;
  if (lasting < least_ + kWorthWhile && !due) return;
  heap_.trim();
  looks_ = 0;
  least_ = last_ = heap_.unused();
}

bool MemoryTrimmer::Wait(std::chrono::nanoseconds time) {
  const SteadyClock::time_point end = SteadyClock::now() + time;
  const MutexLock lock(mutex_);
  while (!stopping_) {
    const std::chrono::nanoseconds left = end - SteadyClock::now();
    if (left.count() <= 0) return true;
    changed_.WaitFor(mutex_, left);
  }
  return false;
}

}  // namespace steadystate
