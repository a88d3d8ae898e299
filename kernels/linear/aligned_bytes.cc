#include "kernels/linear/aligned_bytes.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace steadystate {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

}  // namespace

bool AlignedBytes::Allocate(size_t bytes) {
  data_.reset();
  size_ = 0;
  // Below a few huge pages, rounding up would waste more than it saves.
  const size_t alignment =
      bytes >= 4 * kHugePageBytes ? kHugePageBytes : kAlignment;
  // No object is larger than that, and some allocators abort when asked.
  if (bytes > PTRDIFF_MAX - alignment) return false;
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) return false;
  // Refused where huge pages are switched off: slower, not wrong.
  if (alignment == kHugePageBytes) madvise(memory, rounded, MADV_HUGEPAGE);
  data_.reset(static_cast<std::byte*>(memory));
  size_ = bytes;
  return true;
}

void AlignedBytes::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

}  // namespace steadystate
