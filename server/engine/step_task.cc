#include "server/engine/step_task.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "server/base/binary.h"
#include "server/base/status_macros.h"
#include "server/engine/unfinished_text.h"

namespace steadystate {

void StepTask::Start() {
  inputs_ = Inputs(request().tokens, request().embeddings, hidden_size_);
  absorbed_ = 0;
  recomputes_ = false;
  resets_ = false;
}

absl::Status StepTask::Begin(const SessionState& session) {
  summary().position = session.position();
  resets_ = request().starts && session.position() > 0;
  const uint64_t cap = session.context_cap();
  if (resets_ && (cap == 0 || inputs_.rows() <= cap)) return absl::OkStatus();
  return CheckContextCap(session, inputs_.rows());
}

absl::Status StepTask::Work(Session& session) {
  STEADYSTATE_RETURN_IF_ERROR(reset_(session));
  resets_ = false;
  return absl::OkStatus();
}

void StepTask::Clear(StepRequest& request, StepResult& result) {
  inputs_ = Inputs({}, {}, hidden_size_);
  Empty(request.tokens);
  Empty(request.embeddings);
  request.outputs.sampling.reset();
  result.sampled_token.reset();
  result.sampled_logprob.reset();
  result.text_delta.clear();
  Empty(result.top_logprobs);
  result.logits = {};
  result.hidden = {};
  result.replayed = false;
  Empty(logits_copy_);
  Empty(hidden_copy_);
}

absl::Status StepTask::Resume(const RequestRecord& record,
                              const SessionState& session) {
  // A record may come from outside, with a snapshot.
  const uint64_t absorbed = record.end - record.begin;
  if (absorbed > inputs_.rows() ||
      record.finished != (absorbed == inputs_.rows())) {
    return ReplayUnavailable(record, "that is another number than its inputs'");
  }
  if (!record.finished) {
    absorbed_ = static_cast<size_t>(record.end - record.begin);
    return CheckContextCap(session, inputs_.rows() - absorbed_);
  }
  absorbed_ = inputs_.rows();
  StepResult& result = summary();
  result.replayed = true;
  result.position = record.end;
  if (FillFrom(record.answer, result)) return absl::OkStatus();
  recomputes_ =
      record.end == session.position() && session.pending_hidden() != nullptr;
  if (recomputes_) return absl::OkStatus();
  return ReplayUnavailable(record, "what it answered was too much to be kept");
}

Piece StepTask::Next() const {
  Piece piece;
  if (recomputes_) return piece;
  inputs_.Set(absorbed_, std::min(chunk_rows_, inputs_.rows() - absorbed_),
              piece);
  const bool last = absorbed_ + piece.rows == inputs_.rows();
  piece.logits_end = piece.rows;
  piece.logits_begin = piece.rows - (last && NeedsLogits() ? 1 : 0);
  return piece;
}

void StepTask::Advance(const PieceResult& result) {
  absorbed_ += result.hidden.size() / hidden_size_;
  if (absorbed_ < inputs_.rows()) {
    Record(result.session, /*finished=*/false, "");
    return;
  }
  FillOutputs(result, summary());
  if (!recomputes_) {
    Record(result.session, /*finished=*/true, RecordedAnswer());
  }
  recomputes_ = false;
}

bool StepTask::NeedsLogits() const {
  const StepOutputs& wanted = request().outputs;
  return wanted.logits || wanted.top_logprobs.has_value() ||
         wanted.sampling.has_value();
}

void StepTask::FillOutputs(const PieceResult& from, StepResult& to) {
  const StepOutputs& wanted = request().outputs;
  to.position = from.session.position();
  if (wanted.hidden) FillHidden(from, to);
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
    if (wanted.text) {
      to.text_delta = TextAfter(*model_, from.session, *to.sampled_token);
    }
  }
}

void StepTask::FillHidden(const PieceResult& from, StepResult& to) {
  if (!recomputes_ && from.hidden_stays) {
    to.hidden = from.hidden.last(hidden_size_);
    return;
  }
  // The session may absorb something else before this is sent.
  const float* const last = recomputes_ ? from.session.pending_hidden()
                                        : &from.hidden.last(hidden_size_)[0];
  hidden_copy_.assign(last, last + hidden_size_);
  to.hidden = hidden_copy_;
}

// The token drawn, its log-probability, its text and the most likely ones, as
// far as they are wanted; nothing if that is too much, or is not all.
std::string StepTask::RecordedAnswer() const {
  const StepResult& result = summary();
  if (!request().keyed()) return "";
  std::string answer;
  BinaryWriter to(answer);
  if (result.sampled_token.has_value()) {
    to.Number(*result.sampled_token);
    to.Number(*result.sampled_logprob);
  }
  if (request().outputs.text) to.Text(result.text_delta);
  for (const TokenLogprob& top : result.top_logprobs) {
    to.Number(top.token);
    to.Number(top.logprob);
  }
  return answer.size() > RequestRecords::kMaxAnswerBytes ? "" : answer;
}

// False if `answer` lacks something that is wanted.
bool StepTask::FillFrom(absl::string_view answer, StepResult& to) const {
  const StepOutputs& wanted = request().outputs;
  if (wanted.logits || wanted.hidden) return false;
  if (NeedsLogits() && answer.empty()) return false;
  BinaryReader from(answer);
  if (wanted.sampling.has_value()) {
    to.sampled_token = from.Number<int32_t>();
    to.sampled_logprob = from.Number<float>();
  }
  if (wanted.text) to.text_delta = std::string(from.Text());
  while (from.left() > 0) {
    const auto token = from.Number<int32_t>();
    to.top_logprobs.push_back({token, from.Number<float>()});
  }
  return from.ok();
}

void StepTask::Summarize(const RequestTimes& times, StepResult& to) {
  if (times.first_batch == SteadyTime::InfinitePast()) {
    to.queue_time = to.compute_time = absl::ZeroDuration();
    return;
  }
  to.queue_time = times.first_batch - times.submitted;
  to.compute_time = times.last_batch_end - times.first_batch;
}

}  // namespace steadystate
