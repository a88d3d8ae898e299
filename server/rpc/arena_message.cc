#include "server/rpc/arena_message.h"

#include <array>
#include <new>

#include "absl/base/thread_annotations.h"
#include "server/base/mutex.h"

namespace steadystate {
namespace {

// 2 MiB: what 64 messages of 64 steps take.
constexpr size_t kMaxKept = 256;

// Blocks that nobody uses, the one used last on top. Never destroyed, since
// arenas may outlive what is.
class KeptBlocks {
 public:
  // Null if there is none.
  void* Take() {
    const MutexLock lock(mutex_);
    return count_ == 0 ? nullptr : blocks_[--count_];
  }

  // False if there are enough.
  bool Keep(void* block) {
    const MutexLock lock(mutex_);
    if (count_ == kMaxKept) return false;
    blocks_[count_++] = block;
    return true;
  }

 private:
  Mutex mutex_;
  std::array<void*, kMaxKept> blocks_ ABSL_GUARDED_BY(mutex_);
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

KeptBlocks& Kept() {
  static KeptBlocks& kept = *new KeptBlocks;
  return kept;
}

}  // namespace

void* ArenaBlocks::Allocate(size_t bytes) {
  void* const kept = bytes == kBytes ? Kept().Take() : nullptr;
  return kept == nullptr ? ::operator new(bytes) : kept;
}

void ArenaBlocks::Free(void* block, size_t bytes) {
  if (bytes == kBytes && Kept().Keep(block)) return;
  ::operator delete(block);
}

}  // namespace steadystate
