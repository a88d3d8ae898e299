#include "server/engine/step_task.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/engine/context_cap.h"

namespace steadystate {

StepTask::StepTask(StepRequest request, StepCallback done, size_t hidden_size,
                   size_t chunk_rows)
    : request_(std::move(request)),
      done_(std::move(done)),
      hidden_size_(hidden_size),
      chunk_rows_(chunk_rows),
      rows_(request_.tokens.empty() ? request_.embeddings.size() / hidden_size
                                    : request_.tokens.size()) {}

absl::Status StepTask::Begin(const SessionState& session) {
  return CheckContextCap(session, rows_);
}

Piece StepTask::Next() const {
  Piece piece;
  piece.rows = std::min(chunk_rows_, rows_ - absorbed_);
  if (request_.tokens.empty()) {
    piece.embeddings =
        std::span(request_.embeddings)
            .subspan(absorbed_ * hidden_size_, piece.rows * hidden_size_);
  } else {
    piece.tokens = std::span(request_.tokens).subspan(absorbed_, piece.rows);
  }
  const bool last = absorbed_ + piece.rows == rows_;
  piece.logits_end = piece.rows;
  piece.logits_begin = piece.rows - (last && NeedsLogits() ? 1 : 0);
  return piece;
}

void StepTask::Advance(const PieceResult& result) {
  absorbed_ += result.hidden.size() / hidden_size_;
  if (done()) FillOutputs(result);
}

bool StepTask::NeedsLogits() const {
  const StepOutputs& wanted = request_.outputs;
  return wanted.logits || wanted.top_logprobs.has_value() ||
         wanted.sampling.has_value();
}

void StepTask::FillOutputs(const PieceResult& result) {
  const StepOutputs& wanted = request_.outputs;
  result_.position = result.session.position();
  if (wanted.hidden) {
    const std::span<const float> last = result.hidden.last(hidden_size_);
    result_.hidden.assign(last.begin(), last.end());
  }
  if (wanted.logits) {
    result_.logits.assign(result.logits.begin(), result.logits.end());
  }
  if (wanted.top_logprobs.has_value()) {
    result_.top_logprobs =
        result.sampler.TopLogprobs(result.logits, *wanted.top_logprobs);
  }
  if (wanted.sampling.has_value()) {
    std::array<int32_t, kMaxPenaltyWindow> recent;
    const size_t count = result.session.CopyRecent(recent);
    result_.sampled_token =
        result.sampler.Sample(result.logits, *wanted.sampling,
                              std::span(recent).first(count), result_.position);
    result_.sampled_logprob =
        Sampler::Logprob(result.logits, *result_.sampled_token);
  }
}

void StepTask::Finish(const absl::Status& status, const RequestTimes& times) {
  if (!status.ok()) {
    done_(status);
    return;
  }
  result_.queue_time = times.first_batch - times.submitted;
  result_.compute_time = times.last_batch_end - times.first_batch;
  done_(std::move(result_));
}

uint64_t StepTask::input_bytes() const {
  return request_.tokens.size() * sizeof(int32_t) +
         request_.embeddings.size() * sizeof(float);
}

}  // namespace steadystate
