#include "server/engine/batch_runner.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "kernels/pointwise/activation.h"

namespace steadystate {

ForwardStage::ForwardStage(const Model& model, size_t max_rows,
                           ThreadPool& pool)
    : model_(model),
      hidden_size_(model.description().hidden_size),
      workspace_(model.MakeWorkspace(max_rows, pool)),
      hidden_(max_rows * hidden_size_) {
  rows_.reserve(max_rows);
  segments_.reserve(max_rows);
  parts_.reserve(max_rows);
  part_rows_.reserve(max_rows);
}

void ForwardStage::Begin(std::span<BatchItem> items) {
  items_ = items;
  rows_.clear();
  segments_.clear();
  parts_.clear();
  next_layer_ = 0;
  next_part_ = 0;
  for (BatchItem& item : items) {
    const Piece& piece = item.piece;
    if (piece.pending_only()) continue;
    item.session->WillAbsorb(piece.rows);
    if (piece.part.has_value()) {
      parts_.push_back(&item);
      continue;
    }
    segments_.push_back({.state = item.session->model_state(),
                         .position = item.session->position(),
                         .first_row = rows_.size(),
                         .rows = piece.rows});
    AppendInputs(piece, rows_);
  }
}

bool ForwardStage::RunLayer() {
  if (!rows_.empty() && next_layer_ < model_.description().layers) {
    float* const residual = workspace_.residual();
    if (next_layer_ == 0) model_.Embed(rows_, residual, workspace_);
    model_.ForwardLayer(next_layer_, segments_, rows_.size(), residual,
                        workspace_);
    ++next_layer_;
    return true;
  }
  if (next_part_ == parts_.size()) return false;
  RunPart(*parts_[next_part_]);
  ++next_part_;
  return true;
}

void ForwardStage::RunPart(BatchItem& item) {
  const Piece& piece = item.piece;
  const LayerPart& part = *piece.part;
  if (part.first) {
    part_rows_.clear();
    AppendInputs(piece, part_rows_);
    model_.Embed(part_rows_, part.residual, workspace_);
  }
  const Segment segment = {.state = item.session->model_state(),
                           .position = part.position,
                           .first_row = 0,
                           .rows = piece.rows,
                           .pass = part.pass};
  model_.ForwardLayer(part.layer, {&segment, 1}, piece.rows, part.residual,
                      workspace_);
}

std::span<BatchItem> ForwardStage::Finish() {
  float* hidden = hidden_.data();
  if (!rows_.empty()) {
    model_.Finish(rows_.size(), workspace_.residual(), hidden, workspace_);
  }
  for (BatchItem& item : items_) {
    const Piece& piece = item.piece;
    if (piece.pending_only() || piece.part.has_value()) continue;
    Absorb(item, hidden);
    hidden += piece.rows * hidden_size_;
  }
  for (BatchItem* item : parts_) {
    const Piece& piece = item->piece;
    item->hidden = hidden;
    // What is not finite before stays so until the last layer.
    if (!piece.part->last) continue;
    model_.Finish(piece.rows, piece.part->residual, hidden, workspace_);
    item->finite = AllFinite(piece.rows * hidden_size_, hidden);
    hidden += piece.rows * hidden_size_;
  }
  return items_;
}

void ForwardStage::Absorb(BatchItem& item, const float* hidden) {
  const size_t rows = item.piece.rows;
  item.hidden = hidden;
  item.finite = AllFinite(rows * hidden_size_, hidden);
  item.session->Absorbed(
      rows, item.piece.tokens,
      item.finite ? hidden + (rows - 1) * hidden_size_ : nullptr,
      item.piece.kind == TokenKind::kGenerated);
}

void ForwardStage::AppendInputs(const Piece& piece,
                                std::vector<InputRow>& rows) const {
  for (const int32_t token : piece.tokens) rows.push_back({.token = token});
  for (size_t i = 0; i < piece.embeddings.size(); i += hidden_size_) {
    rows.push_back({.embedding = &piece.embeddings[i]});
  }
}

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
  head_items_.reserve(max_rows);
  // Each made by itself: a copy would not have the room that it reserves.
  samplers_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    samplers_.emplace_back(vocab_size_, model.description().ids_without_token);
  }
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
  head_items_.clear();
  size_t logits_rows = 0;
  for (BatchItem& item : items) {
    if (!item.finite) continue;
    const size_t wanted = item.piece.logits_rows();
    if (logits_rows + wanted > max_logits_rows_) {
      Head(head_items_, logits_rows, /*last=*/false, stage.workspace());
      head_items_.clear();
      logits_rows = 0;
    }
    head_items_.push_back({.item = &item});
    logits_rows += wanted;
  }
  Head(head_items_, logits_rows, /*last=*/true, stage.workspace());
  return {.model = stage.workspace().TakePhases(), .sample = sample_time_};
}

void BatchRunner::Head(std::span<HeadItem> items, size_t logits_rows, bool last,
                       Workspace& workspace) {
  float* input = head_inputs_.data();
  const float* logits = logits_.data();
  for (HeadItem& head : items) {
    const Piece& piece = head.item->piece;
    const size_t wanted = piece.logits_rows();
    head.logits = logits;
    logits += wanted * vocab_size_;
    const float* const from =
        piece.pending_only()
            ? head.item->session->pending_hidden()
            : head.item->hidden + piece.logits_begin * hidden_size_;
    std::memcpy(input, from, wanted * hidden_size_ * sizeof(float));
    input += wanted * hidden_size_;
  }
  if (logits_rows > 0) {
    model_.Head(logits_rows, head_inputs_.data(), logits_.data(), workspace);
  }
  Advance(items, last);
}

void BatchRunner::Advance(std::span<HeadItem> items, bool last) {
  const auto start = std::chrono::steady_clock::now();
  pool_.ParallelFor(items.size(), [this, items, last](size_t i, size_t worker) {
    const HeadItem& head = items[i];
    BatchItem& item = *head.item;
    const size_t logits_count = item.piece.logits_rows() * vocab_size_;
    if (!AllFinite(logits_count, head.logits)) {
      item.finite = false;
      item.session->DropPending();
      return;
    }
    if (item.task == nullptr) return;
    item.task->Advance(
        {.session = *item.session,
         .hidden = {item.hidden, item.piece.completed_rows() * hidden_size_},
         .logits = {head.logits, logits_count},
         .hidden_stays = !item.answered_later,
         .logits_stay = last && !item.answered_later,
         .sampler = samplers_[worker]});
  });
  sample_time_ += absl::FromChrono(std::chrono::steady_clock::now() - start);
}

}  // namespace steadystate
