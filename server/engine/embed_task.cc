#include "server/engine/embed_task.h"

#include <algorithm>
#include <utility>

#include "server/engine/engine.h"

namespace steadystate {

EmbedOutput::EmbedOutput(Pooling pooling, size_t hidden_size)
    : pooling_(pooling),
      hidden_size_(hidden_size),
      sum_(pooling == Pooling::kMean ? hidden_size : 0) {}

void EmbedOutput::Add(std::span<const float> hidden, uint64_t position,
                      std::vector<EmbeddedRow>& to) {
  const size_t rows = hidden.size() / hidden_size_;
  for (size_t row = 0; row < rows; ++row) {
    const auto vector = hidden.subspan(row * hidden_size_, hidden_size_);
    if (pooling_ == Pooling::kNone) {
      to.push_back({.position = position + row,
                    .hidden = {vector.begin(), vector.end()}});
    }
    if (pooling_ == Pooling::kLast && row + 1 == rows) {
      last_.assign(vector.begin(), vector.end());
    }
    if (pooling_ != Pooling::kMean) continue;
    for (size_t i = 0; i < hidden_size_; ++i) sum_[i] += double{vector[i]};
  }
  rows_ += rows;
  position_ = position + rows - 1;
}

void EmbedOutput::Close(std::vector<EmbeddedRow>& to) {
  if (pooling_ == Pooling::kLast) {
    to.push_back({.position = position_, .hidden = last_});
  }
  if (pooling_ != Pooling::kMean) return;
  std::vector<float> mean(hidden_size_);
  for (size_t i = 0; i < hidden_size_; ++i) {
    mean[i] = static_cast<float>(sum_[i] / static_cast<double>(rows_));
  }
  to.push_back({.position = position_, .hidden = std::move(mean)});
}

BidirectionalPass::BidirectionalPass(const Inputs& inputs,
                                     const ModelDescription& model,
                                     size_t chunk_rows)
    : inputs_(inputs),
      hidden_size_(model.hidden_size),
      layers_(model.layers),
      chunk_rows_(chunk_rows),
      residual_((inputs.rows() + chunk_rows - 1) / chunk_rows) {
  MakeResidual();
}

void BidirectionalPass::MakeResidual() {
  residual() =
      std::make_unique_for_overwrite<float[]>(NextRows() * hidden_size_);
}

size_t BidirectionalPass::NextRows() const {
  return std::min(chunk_rows_, inputs_.rows() - row_);
}

Piece BidirectionalPass::Next() const {
  Piece piece;
  if (first()) {
    inputs_.Set(row_, NextRows(), piece);
  } else {
    piece.rows = NextRows();
  }
  piece.part = {.layer = layer_,
                .pass = pass_,
                .position = row_,
                .residual = residual_[row_ / chunk_rows_].get(),
                .first = first(),
                .last = last()};
  return piece;
}

void BidirectionalPass::Advance() {
  if (last()) residual().reset();
  row_ += NextRows();
  if (row_ < inputs_.rows()) {
    if (first()) MakeResidual();
    return;
  }
  row_ = 0;
  if (pass_ == Pass::kAbsorb) {
    pass_ = Pass::kRead;
    return;
  }
  pass_ = Pass::kAbsorb;
  ++layer_;
}

EmbedTask::EmbedTask(const ModelDescription& model, size_t chunk_rows)
    : model_(model),
      chunk_rows_(AnsweredRows(model.hidden_size, chunk_rows)),
      inputs_({}, {}, model.hidden_size) {}

void EmbedTask::Start() {
  inputs_ = Inputs(request().tokens, request().embeddings, model_.hidden_size);
  absorbed_ = 0;
  output_.emplace(request().pooling, model_.hidden_size);
}

absl::Status EmbedTask::Begin(const SessionState& session) {
  if (!request().bidirectional) {
    return CheckContextCap(session, inputs_.rows());
  }
  pass_.emplace(inputs_, model_, chunk_rows_);
  return absl::OkStatus();
}

Piece EmbedTask::Next() const {
  if (pass_.has_value()) return pass_->Next();
  Piece piece;
  inputs_.Set(absorbed_, std::min(chunk_rows_, inputs_.rows() - absorbed_),
              piece);
  return piece;
}

void EmbedTask::Advance(const PieceResult& result) {
  if (pass_.has_value()) {
    if (pass_->last()) output_->Add(result.hidden, pass_->row() + 1, items());
    pass_->Advance();
  } else {
    const size_t rows = result.hidden.size() / model_.hidden_size;
    output_->Add(result.hidden, result.session.position() - rows + 1, items());
    absorbed_ += rows;
    Record(result.session, done(), "");
  }
  if (done()) output_->Close(items());
}

bool EmbedTask::done() const {
  return pass_.has_value() ? pass_->done() : absorbed_ == inputs_.rows();
}

uint64_t EmbedTask::input_bytes() const {
  if (!request().bidirectional) return inputs_.bytes();
  return inputs_.bytes() + ResidualBytes(inputs_.rows(), model_.hidden_size);
}

void EmbedTask::Summarize(const RequestTimes&, EmbedSummary& to) {
  to = output_->summary();
}

void EmbedTask::Clear(EmbedRequest& request, EmbedSummary& summary) {
  request = {};
  summary = {};
  pass_.reset();
  output_.reset();
}

}  // namespace steadystate
