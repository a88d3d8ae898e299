#include "server/session/token_history.h"

#include <algorithm>

namespace steadystate {
namespace {

constexpr size_t kBits = 64;

size_t CutBytes(size_t capacity) {
  return (capacity + kBits - 1) / kBits * sizeof(uint64_t);
}

}  // namespace

size_t TokenHistory::Bytes(size_t capacity) {
  constexpr size_t kAlignment = sizeof(uint64_t);
  const size_t tokens = capacity * sizeof(int32_t);
  return CutBytes(capacity) +
         (tokens + kAlignment - 1) / kAlignment * kAlignment;
}

TokenHistory::TokenHistory(std::byte* memory, size_t capacity)
    : tokens_(reinterpret_cast<int32_t*>(memory + CutBytes(capacity))),
      cuts_(reinterpret_cast<uint64_t*>(memory)),
      capacity_(capacity) {}

void TokenHistory::Append(uint64_t position, size_t rows,
                          std::span<const int32_t> tokens) {
  // Of a piece that is longer than all that is kept, its end.
  for (size_t i = rows - std::min(rows, capacity_); i < rows; ++i) {
    const size_t index = (position + i) % capacity_;
    tokens_[index] = tokens.empty() ? kEmbedding : tokens[i];
    SetCut(index, i == 0);
  }
}

void TokenHistory::Copy(uint64_t from, std::span<int32_t> to) const {
  if (to.empty()) return;
  const auto first = static_cast<size_t>(from % capacity_);
  const size_t until_end = std::min(to.size(), capacity_ - first);
  std::copy_n(tokens_ + first, until_end, to.data());
  std::copy_n(tokens_, to.size() - until_end, to.data() + until_end);
}

bool TokenHistory::BeginsPiece(uint64_t position) const {
  const auto index = static_cast<size_t>(position % capacity_);
  return (cuts_[index / kBits] >> (index % kBits) & 1) != 0;
}

void TokenHistory::SetCut(size_t index, bool cut) {
  const uint64_t bit = uint64_t{1} << (index % kBits);
  uint64_t& word = cuts_[index / kBits];
  word = cut ? word | bit : word & ~bit;
}

}  // namespace steadystate
