#include "server/engine/embed_task.h"

#include <algorithm>
#include <utility>

#include "server/engine/context_cap.h"

namespace steadystate {

EmbedTask::EmbedTask(EmbedRequest request, std::shared_ptr<EmbedSink> sink,
                     size_t hidden_size, size_t chunk_rows)
    : request_(std::move(request)),
      sink_(std::move(sink)),
      hidden_size_(hidden_size),
      chunk_rows_(std::min(chunk_rows, EmbedOutput::MaxPieceRows(hidden_size))),
      inputs_(request_.tokens, request_.embeddings, hidden_size),
      output_(request_.pooling, hidden_size) {}

absl::Status EmbedTask::Begin(const SessionState& session) {
  return CheckContextCap(session, inputs_.rows());
}

Piece EmbedTask::Next() const {
  Piece piece;
  inputs_.Set(absorbed_, std::min(chunk_rows_, inputs_.rows() - absorbed_),
              piece);
  return piece;
}

void EmbedTask::Advance(const PieceResult& result) {
  const size_t rows = result.hidden.size() / hidden_size_;
  output_.Add(result.hidden, result.session.position() - rows + 1);
  absorbed_ += rows;
  if (done()) output_.Close();
}

void EmbedTask::Finish(const absl::Status& status, const RequestTimes&) {
  if (status.ok()) {
    sink_->OnDone(output_.summary());
  } else {
    sink_->OnDone(status);
  }
}

}  // namespace steadystate
