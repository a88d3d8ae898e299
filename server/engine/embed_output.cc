#include "server/engine/embed_output.h"

#include <algorithm>
#include <utility>

namespace steadystate {
namespace {

constexpr size_t kMaxPieceBytes = size_t{1} << 20;

}  // namespace

EmbedOutput::EmbedOutput(Pooling pooling, size_t hidden_size)
    : pooling_(pooling),
      hidden_size_(hidden_size),
      sum_(pooling == Pooling::kMean ? hidden_size : 0) {}

size_t EmbedOutput::MaxPieceRows(size_t hidden_size) {
  return std::max<size_t>(kMaxPieceBytes / (hidden_size * sizeof(float)), 1);
}

void EmbedOutput::Add(std::span<const float> hidden, uint64_t position) {
  const size_t rows = hidden.size() / hidden_size_;
  for (size_t row = 0; row < rows; ++row) {
    const auto vector = hidden.subspan(row * hidden_size_, hidden_size_);
    if (pooling_ == Pooling::kNone) Emit(position + row, vector);
    if (pooling_ == Pooling::kLast && row + 1 == rows) {
      last_.assign(vector.begin(), vector.end());
    }
    if (pooling_ != Pooling::kMean) continue;
    for (size_t i = 0; i < hidden_size_; ++i) sum_[i] += double{vector[i]};
  }
  rows_ += rows;
  position_ = position + rows - 1;
}

void EmbedOutput::Close() {
  if (pooling_ == Pooling::kLast) Emit(position_, last_);
  if (pooling_ != Pooling::kMean) return;
  std::vector<float> mean(hidden_size_);
  for (size_t i = 0; i < hidden_size_; ++i) {
    mean[i] = static_cast<float>(sum_[i] / static_cast<double>(rows_));
  }
  Emit(position_, mean);
}

void EmbedOutput::Emit(uint64_t position, std::span<const float> hidden) {
  complete_.push_back(
      {.position = position, .hidden = {hidden.begin(), hidden.end()}});
}

void EmbedOutput::Deliver(EmbedSink& sink) {
  for (EmbeddedRow& row : complete_) sink.OnItem(std::move(row));
  complete_.clear();
}

}  // namespace steadystate
