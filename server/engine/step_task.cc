#include "server/engine/step_task.h"

#include <algorithm>
#include <array>
#include <span>

namespace steadystate {

void StepTask::Start() {
  inputs_ = Inputs(request().tokens, request().embeddings, hidden_size_);
  absorbed_ = 0;
}

void StepTask::Clear(StepRequest& request, StepResult& result) {
  inputs_ = Inputs({}, {}, hidden_size_);
  Empty(request.tokens);
  Empty(request.embeddings);
  request.outputs.sampling.reset();
  result.sampled_token.reset();
  result.sampled_logprob.reset();
  Empty(result.top_logprobs);
  result.logits = {};
  result.hidden = {};
  Empty(logits_copy_);
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
  if (done()) FillOutputs(result, summary());
}

bool StepTask::NeedsLogits() const {
  const StepOutputs& wanted = request().outputs;
  return wanted.logits || wanted.top_logprobs.has_value() ||
         wanted.sampling.has_value();
}

void StepTask::FillOutputs(const PieceResult& from, StepResult& to) {
  const StepOutputs& wanted = request().outputs;
  to.position = from.session.position();
  if (wanted.hidden) to.hidden = from.hidden.last(hidden_size_);
  if (wanted.logits && from.logits_stay) {
    to.logits = from.logits;
  } else if (wanted.logits) {
    logits_copy_.assign(from.logits.begin(), from.logits.end());
    to.logits = logits_copy_;
  }
  if (wanted.top_logprobs.has_value()) {
    to.top_logprobs =
        from.sampler.TopLogprobs(from.logits, *wanted.top_logprobs);
  }
  if (wanted.sampling.has_value()) {
    std::array<int32_t, kMaxPenaltyWindow> recent;
    const size_t count = from.session.CopyRecent(
        std::span(recent).first(RecentWanted(*wanted.sampling)));
    to.sampled_token =
        from.sampler.Sample(from.logits, *wanted.sampling,
                            std::span(recent).first(count), to.position);
    to.sampled_logprob = Sampler::Logprob(from.logits, *to.sampled_token);
  }
}

void StepTask::Summarize(const RequestTimes& times, StepResult& to) {
  to.queue_time = times.first_batch - times.submitted;
  to.compute_time = times.last_batch_end - times.first_batch;
}

}  // namespace steadystate
