#include "server/engine/step_task.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "server/engine/context_cap.h"

namespace steadystate {
namespace {

// What a vector that is used again may keep.
constexpr size_t kKeptBytes = 1024;

template <typename T>
void Empty(std::vector<T>& vector) {
  vector.clear();
  if (vector.capacity() * sizeof(T) > kKeptBytes) vector.shrink_to_fit();
}

}  // namespace

StepTask::StepTask(StepRequest request, StepCallback done, size_t hidden_size,
                   size_t chunk_rows)
    : request_(std::move(request)),
      done_(std::move(done)),
      hidden_size_(hidden_size),
      chunk_rows_(chunk_rows),
      inputs_(request_.tokens, request_.embeddings, hidden_size) {}

StepTask::StepTask(size_t hidden_size, size_t chunk_rows)
    : hidden_size_(hidden_size),
      chunk_rows_(chunk_rows),
      inputs_({}, {}, hidden_size) {}

void StepTask::Take(StepRequest& request, StepSink& sink, uint64_t tag) {
  std::swap(request_, request);
  sink_ = &sink;
  tag_ = tag;
  inputs_ = Inputs(request_.tokens, request_.embeddings, hidden_size_);
}

void StepTask::Forget() {
  Empty(request_.tokens);
  Empty(request_.embeddings);
  request_.outputs.sampling.reset();
  absorbed_ = 0;
  if (!outcome_.ok()) {
    outcome_ = StepResult();
    return;
  }
  outcome_->sampled_token.reset();
  outcome_->sampled_logprob.reset();
  Empty(outcome_->top_logprobs);
  Empty(outcome_->logits);
  Empty(outcome_->hidden);
}

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
  StepResult& to = *outcome_;
  to.position = result.session.position();
  if (wanted.hidden) {
    const std::span<const float> last = result.hidden.last(hidden_size_);
    to.hidden.assign(last.begin(), last.end());
  }
  if (wanted.logits) {
    to.logits.assign(result.logits.begin(), result.logits.end());
  }
  if (wanted.top_logprobs.has_value()) {
    to.top_logprobs =
        result.sampler.TopLogprobs(result.logits, *wanted.top_logprobs);
  }
  if (wanted.sampling.has_value()) {
    std::array<int32_t, kMaxPenaltyWindow> recent;
    const size_t count = result.session.CopyRecent(
        std::span(recent).first(RecentWanted(*wanted.sampling)));
    to.sampled_token =
        result.sampler.Sample(result.logits, *wanted.sampling,
                              std::span(recent).first(count), to.position);
    to.sampled_logprob = Sampler::Logprob(result.logits, *to.sampled_token);
  }
}

void StepTask::Finish(const absl::Status& status, const RequestTimes& times) {
  if (status.ok()) {
    outcome_->queue_time = times.first_batch - times.submitted;
    outcome_->compute_time = times.last_batch_end - times.first_batch;
  } else {
    outcome_ = status;
  }
  if (done_) done_(std::move(outcome_));
}

}  // namespace steadystate
