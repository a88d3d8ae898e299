#include "server/engine/bidirectional_task.h"

#include <algorithm>
#include <utility>

namespace steadystate {

BidirectionalTask::BidirectionalTask(EmbedRequest request,
                                     std::shared_ptr<EmbedSink> sink,
                                     const ModelDescription& model,
                                     size_t chunk_rows)
    : request_(std::move(request)),
      sink_(std::move(sink)),
      hidden_size_(model.hidden_size),
      layers_(model.layers),
      chunk_rows_(
          std::min(chunk_rows, EmbedOutput::MaxPieceRows(hidden_size_))),
      inputs_(request_.tokens, request_.embeddings, hidden_size_),
      output_(request_.pooling, hidden_size_) {}

absl::Status BidirectionalTask::Begin(const SessionState&) {
  residual_.resize((inputs_.rows() + chunk_rows_ - 1) / chunk_rows_);
  residual() =
      std::make_unique_for_overwrite<float[]>(NextRows() * hidden_size_);
  return absl::OkStatus();
}

size_t BidirectionalTask::NextRows() const {
  return std::min(chunk_rows_, inputs_.rows() - row_);
}

Piece BidirectionalTask::Next() const {
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

void BidirectionalTask::Advance(const PieceResult& result) {
  if (last()) {
    output_.Add(result.hidden, row_ + 1);
    residual().reset();
  }
  row_ += NextRows();
  if (row_ < inputs_.rows()) {
    if (first()) {
      residual() =
          std::make_unique_for_overwrite<float[]>(NextRows() * hidden_size_);
    }
    return;
  }
  row_ = 0;
  if (pass_ == Pass::kAbsorb) {
    pass_ = Pass::kRead;
    return;
  }
  pass_ = Pass::kAbsorb;
  ++layer_;
  if (done()) output_.Close();
}

void BidirectionalTask::Finish(const absl::Status& status,
                               const RequestTimes&) {
  if (status.ok()) {
    sink_->OnDone(output_.summary());
  } else {
    sink_->OnDone(status);
  }
}

}  // namespace steadystate
