#include "server/engine/batch_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "kernels/pointwise/activation.h"

namespace steadystate {

BatchRunner::BatchRunner(const Model& model, size_t max_rows, size_t threads,
                         size_t max_logits_bytes)
    : model_(model),
      hidden_size_(model.description().hidden_size),
      vocab_size_(model.description().vocab_size),
      max_logits_rows_(std::clamp<size_t>(
          max_logits_bytes / (vocab_size_ * sizeof(float)), 1, max_rows)),
      pool_(threads),
      whole_(model, max_rows, pool_),
      prefill_(model, max_rows, pool_),
      head_inputs_(max_logits_rows_ * hidden_size_),
      logits_(max_logits_rows_ * vocab_size_) {
  parts_.reserve(max_rows);
  // Each made by itself: a copy would not have the room that it reserves.
  samplers_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) samplers_.emplace_back(vocab_size_);
}

BatchTimes BatchRunner::Run(std::span<BatchItem> items,
                            absl::FunctionRef<void()> after_layer) {
  whole_.Begin(items);
  while (whole_.RunLayer()) after_layer();
  return Complete(whole_);
}

std::optional<BatchTimes> BatchRunner::ContinuePrefill(
    absl::FunctionRef<bool()> leave) {
  while (prefill_.RunLayer()) {
    if (leave()) return std::nullopt;
  }
  return Complete(prefill_);
}

BatchTimes BatchRunner::Complete(ForwardStage& stage) {
  const std::span<BatchItem> items = stage.Finish();
  sample_time_ = absl::ZeroDuration();
  parts_.clear();
  size_t logits_rows = 0;
  for (BatchItem& item : items) {
    if (!item.finite) continue;
    const size_t wanted = item.piece.logits_rows();
    if (logits_rows + wanted > max_logits_rows_) {
      Head(parts_, logits_rows, stage.workspace());
      parts_.clear();
      logits_rows = 0;
    }
    parts_.push_back({.item = &item});
    logits_rows += wanted;
  }
  Head(parts_, logits_rows, stage.workspace());
  return {.model = stage.workspace().TakePhases(), .sample = sample_time_};
}

void BatchRunner::Head(std::span<Part> parts, size_t logits_rows,
                       Workspace& workspace) {
  float* input = head_inputs_.data();
  const float* logits = logits_.data();
  for (Part& part : parts) {
    const Piece& piece = part.item->piece;
    const size_t wanted = piece.logits_rows();
    part.logits = logits;
    logits += wanted * vocab_size_;
    const float* const from =
        piece.pending_only()
            ? part.item->session->pending_hidden()
            : part.item->hidden + piece.logits_begin * hidden_size_;
    std::memcpy(input, from, wanted * hidden_size_ * sizeof(float));
    input += wanted * hidden_size_;
  }
  if (logits_rows > 0) {
    model_.Head(logits_rows, head_inputs_.data(), logits_.data(), workspace);
  }
  Advance(parts);
}

void BatchRunner::Advance(std::span<Part> parts) {
  const auto start = std::chrono::steady_clock::now();
  pool_.ParallelFor(parts.size(), [this, parts](size_t i, size_t worker) {
    const Part& part = parts[i];
    BatchItem& item = *part.item;
    const size_t logits_count = item.piece.logits_rows() * vocab_size_;
    if (!AllFinite(logits_count, part.logits)) {
      item.finite = false;
      item.session->DropPending();
      return;
    }
    item.task->Advance(
        {.session = *item.session,
         .hidden = {item.hidden, item.piece.completed_rows() * hidden_size_},
         .logits = {part.logits, logits_count},
         .sampler = samplers_[worker]});
  });
  sample_time_ += absl::FromChrono(std::chrono::steady_clock::now() - start);
}

}  // namespace steadystate
