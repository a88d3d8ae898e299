#include "server/engine/score_task.h"

#include <algorithm>
#include <utility>

#include "server/engine/context_cap.h"

namespace steadystate {

ScoreTask::ScoreTask(ScoreRequest request, std::shared_ptr<ScoreSink> sink,
                     size_t vocab_size, size_t chunk_rows)
    : request_(std::move(request)),
      sink_(std::move(sink)),
      vocab_size_(vocab_size),
      chunk_rows_(std::clamp<size_t>(
          kMaxLogitsBytes / (vocab_size * sizeof(float)), 1, chunk_rows)) {}

absl::Status ScoreTask::Begin(const SessionState& session) {
  wants_pending_ = session.pending_hidden() != nullptr;
  return CheckContextCap(session, request_.tokens.size());
}

size_t ScoreTask::NextRows() const {
  return std::min(chunk_rows_, request_.tokens.size() - absorbed_);
}

Piece ScoreTask::Next() const {
  Piece piece;
  if (wants_pending_) return piece;
  piece.rows = NextRows();
  piece.tokens = std::span(request_.tokens).subspan(absorbed_, piece.rows);
  const bool last = absorbed_ + piece.rows == request_.tokens.size();
  // After the last token nothing is left to be judged.
  piece.logits_end = piece.rows - (last && !request_.logits ? 1 : 0);
  return piece;
}

void ScoreTask::Advance(const PieceResult& result) {
  if (wants_pending_) {
    wants_pending_ = false;
    next_ = Judge(result.logits, request_.tokens.front(), result.sampler);
    return;
  }
  const size_t rows = NextRows();
  const uint64_t position_before = result.session.position() - rows;
  const size_t logits_rows = result.logits.size() / vocab_size_;
  for (size_t i = 0; i < rows; ++i) {
    ScoredToken& item = items_.emplace_back();
    item.token = request_.tokens[absorbed_ + i];
    item.position = position_before + i + 1;
    if (next_.has_value()) {
      item.logprob = next_->logprob;
      item.top_logprobs = std::move(next_->top_logprobs);
      next_.reset();
    }
    if (i >= logits_rows) continue;
    const auto logits = result.logits.subspan(i * vocab_size_, vocab_size_);
    if (request_.logits) item.logits.assign(logits.begin(), logits.end());
    const size_t following = absorbed_ + i + 1;
    if (following < request_.tokens.size()) {
      next_ = Judge(logits, request_.tokens[following], result.sampler);
    }
  }
  absorbed_ += rows;
  summary_.position = result.session.position();
}

ScoreTask::Verdict ScoreTask::Judge(std::span<const float> logits,
                                    int32_t token, Sampler& sampler) const {
  Verdict verdict;
  verdict.logprob = Sampler::Logprob(logits, token);
  if (request_.top_logprobs.has_value()) {
    verdict.top_logprobs = sampler.TopLogprobs(logits, *request_.top_logprobs);
  }
  return verdict;
}

void ScoreTask::Deliver(const RequestTimes&) {
  for (ScoredToken& item : items_) {
    ++summary_.tokens;
    if (item.logprob.has_value()) {
      ++summary_.scored_tokens;
      summary_.total_logprob += double{*item.logprob};
    }
    sink_->OnItem(std::move(item));
  }
  items_.clear();
}

void ScoreTask::Finish(const absl::Status& status, const RequestTimes&) {
  if (status.ok()) {
    sink_->OnDone(summary_);
  } else {
    sink_->OnDone(status);
  }
}

uint64_t ScoreTask::input_bytes() const {
  return request_.tokens.size() * sizeof(int32_t);
}

}  // namespace steadystate
