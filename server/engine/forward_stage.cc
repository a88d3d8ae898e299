#include "server/engine/forward_stage.h"

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
      item.finite ? hidden + (rows - 1) * hidden_size_ : nullptr);
}

void ForwardStage::AppendInputs(const Piece& piece,
                                std::vector<InputRow>& rows) const {
  for (const int32_t token : piece.tokens) rows.push_back({.token = token});
  for (size_t i = 0; i < piece.embeddings.size(); i += hidden_size_) {
    rows.push_back({.embedding = &piece.embeddings[i]});
  }
}

}  // namespace steadystate
