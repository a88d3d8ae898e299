#include "server/base/memory_trimmer.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace steadystate {
namespace {

// What is needed again so soon is not handed back.
constexpr std::chrono::milliseconds kPatience(500);

}  // namespace

MemoryTrimmer::MemoryTrimmer() : MemoryTrimmer([] { malloc_trim(0); }) {}

MemoryTrimmer::MemoryTrimmer(std::function<void()> trim)
    : trim_(std::move(trim)), thread_([this] { Loop(); }) {}

MemoryTrimmer::~MemoryTrimmer() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.SignalOne();
  }
  thread_.join();
}

void MemoryTrimmer::Use(int64_t bytes) {
  const MutexLock lock(mutex_);
  const bool was_worth_while = WorthWhile();
  used_ += bytes;
  most_ = std::max(most_, used_);
  if (!was_worth_while && WorthWhile()) changed_.SignalOne();
}

bool MemoryTrimmer::WorthWhile() const {
  return most_ - used_ >= std::max(kWorthWhile, used_);
}

void MemoryTrimmer::Loop() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (!WorthWhile() && !stopping_) changed_.Wait(mutex_);
      if (!stopping_) changed_.WaitFor(mutex_, kPatience);
      if (stopping_) return;
      if (!WorthWhile()) continue;
      most_ = used_;
    }
    trim_();
  }
}

}  // namespace steadystate
