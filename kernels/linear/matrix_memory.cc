#include "kernels/linear/matrix_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace steadystate {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

// Large enough to lose little at the ends of chunks.
constexpr size_t kMaxChunk = size_t{64} << 20;

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

std::shared_ptr<std::byte> WeightArena::Allocate(size_t bytes) {
  if (chunk_ == nullptr || bytes > chunk_->size() - used_) {
    auto chunk = std::make_shared<AlignedBytes>();
    if (!chunk->Allocate(std::max(bytes, next_chunk_))) return nullptr;
    chunk_ = std::move(chunk);
    used_ = 0;
    next_chunk_ = std::min(2 * next_chunk_, kMaxChunk);
  }
  std::shared_ptr<std::byte> result(chunk_, chunk_->data() + used_);
  // The next one's alignment.
  constexpr size_t kLine = AlignedBytes::kAlignment;
  const size_t whole_lines = (bytes + kLine - 1) / kLine * kLine;
  used_ += std::min(whole_lines, chunk_->size() - used_);
  return result;
}

}  // namespace steadystate
