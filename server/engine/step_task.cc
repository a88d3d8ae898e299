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
      inputs_(request_.tokens, request_.embeddings, hidden_size) {}

absl::Status StepTask::Begin(const SessionState& session) {
  return CheckContextCap(session, inputs_.rows());
}

Piece StepTask::Next() const {
  Piece piece;
  inputs_.Set(absorbed_, std::min(chunk_rows_, inputs_.rows() - absorbed_),
              piece);
  const bool last = absorbed_ + piece.rows == inputs_.rows();
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

}  // namespace steadystate
