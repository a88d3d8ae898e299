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
      workspace_(model, max_rows, pool_),
      samplers_(threads, Sampler(vocab_size_)),
      hidden_(max_rows * hidden_size_),
      head_inputs_(max_logits_rows_ * hidden_size_),
      logits_(max_logits_rows_ * vocab_size_) {
  rows_.reserve(max_rows);
  segments_.reserve(max_rows);
  parts_.reserve(max_rows);
}

BatchTimes BatchRunner::Run(std::span<BatchItem> items) {
  sample_time_ = absl::ZeroDuration();
  Forward(items);
  parts_.clear();
  size_t logits_rows = 0;
  for (BatchItem& item : items) {
    if (!item.finite) continue;
    const size_t wanted = item.piece.logits_rows();
    if (logits_rows + wanted > max_logits_rows_) {
      Head(parts_, logits_rows);
      parts_.clear();
      logits_rows = 0;
    }
    parts_.push_back({.item = &item});
    logits_rows += wanted;
  }
  Head(parts_, logits_rows);
  return {.model = workspace_.TakePhases(), .sample = sample_time_};
}

void BatchRunner::Forward(std::span<BatchItem> items) {
  rows_.clear();
  segments_.clear();
  for (const BatchItem& item : items) {
    if (item.piece.pending_only() || item.piece.part.has_value()) continue;
    item.session->WillAbsorb(item.piece.rows);
    segments_.push_back({.state = item.session->model_state(),
                         .position = item.session->position(),
                         .first_row = rows_.size(),
                         .rows = item.piece.rows});
    AddInputs(item.piece);
  }
  if (!rows_.empty()) {
    model_.Forward(rows_, segments_, hidden_.data(), workspace_);
  }
  float* hidden = hidden_.data();
  for (BatchItem& item : items) {
    const size_t rows = item.piece.rows;
    if (rows == 0 || item.piece.part.has_value()) continue;
    item.hidden = hidden;
    item.finite = AllFinite(rows * hidden_size_, hidden);
    item.session->Absorbed(
        rows, item.piece.tokens,
        item.finite ? hidden + (rows - 1) * hidden_size_ : nullptr);
    hidden += rows * hidden_size_;
  }
  for (BatchItem& item : items) {
    if (!item.piece.part.has_value()) continue;
    ForwardPart(item, hidden);
    hidden += item.piece.completed_rows() * hidden_size_;
  }
}

void BatchRunner::ForwardPart(BatchItem& item, float* hidden) {
  const Piece& piece = item.piece;
  const LayerPart& part = *piece.part;
  item.hidden = hidden;
  item.session->WillAbsorb(piece.rows);
  if (part.first) {
    rows_.clear();
    AddInputs(piece);
    model_.Embed(rows_, part.residual, workspace_);
  }
  model_.ForwardLayer(part.layer,
                      {.state = item.session->model_state(),
                       .position = part.position,
                       .first_row = 0,
                       .rows = piece.rows,
                       .pass = part.pass},
                      part.residual, workspace_);
  if (!part.last) return;
  // What is not finite before stays so until here.
  model_.Finish(piece.rows, part.residual, hidden, workspace_);
  item.finite = AllFinite(piece.rows * hidden_size_, hidden);
}

void BatchRunner::AddInputs(const Piece& piece) {
  for (const int32_t token : piece.tokens) rows_.push_back({.token = token});
  for (size_t i = 0; i < piece.embeddings.size(); i += hidden_size_) {
    rows_.push_back({.embedding = &piece.embeddings[i]});
  }
}

void BatchRunner::Head(std::span<Part> parts, size_t logits_rows) {
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
    model_.Head(logits_rows, head_inputs_.data(), logits_.data(), workspace_);
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
