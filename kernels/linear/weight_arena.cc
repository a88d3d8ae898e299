#include "kernels/linear/weight_arena.h"

#include <algorithm>

namespace steadystate {
namespace {

// Large enough to lose little at the ends of chunks.
constexpr size_t kMaxChunk = size_t{64} << 20;

}  // namespace

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
