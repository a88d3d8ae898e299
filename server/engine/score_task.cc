#include "server/engine/score_task.h"

#include <algorithm>
#include <utility>

#include "server/engine/engine.h"

namespace steadystate {

ScoreTask::ScoreTask(size_t vocab_size, size_t chunk_rows)
    : vocab_size_(vocab_size),
      chunk_rows_(AnsweredRows(vocab_size, chunk_rows)) {}

void ScoreTask::Start() {
  wants_pending_ = false;
  absorbed_ = 0;
  next_.reset();
}

absl::Status ScoreTask::Begin(const SessionState& session) {
  wants_pending_ = session.pending_hidden() != nullptr;
  return CheckContextCap(session, request().tokens.size());
}

size_t ScoreTask::NextRows() const {
  return std::min(chunk_rows_, request().tokens.size() - absorbed_);
}

Piece ScoreTask::Next() const {
  Piece piece;
  if (wants_pending_) return piece;
  piece.rows = NextRows();
  piece.tokens = std::span(request().tokens).subspan(absorbed_, piece.rows);
  const bool last = absorbed_ + piece.rows == request().tokens.size();
  // After the last token nothing is left to be judged.
  piece.logits_end = piece.rows - (last && !request().logits ? 1 : 0);
  return piece;
}

void ScoreTask::Advance(const PieceResult& result) {
  if (wants_pending_) {
    wants_pending_ = false;
    next_ = Judge(result.logits, request().tokens.front(), result.sampler);
    return;
  }
  const size_t rows = NextRows();
  const uint64_t position_before = result.session.position() - rows;
  const size_t logits_rows = result.logits.size() / vocab_size_;
  for (size_t i = 0; i < rows; ++i) {
    ScoredToken& item = items().emplace_back();
    item.token = request().tokens[absorbed_ + i];
    item.position = position_before + i + 1;
    if (next_.has_value()) {
      item.logprob = next_->logprob;
      ++summary().scored_tokens;
      summary().total_logprob += double{next_->logprob};
      item.top_logprobs = std::move(next_->top_logprobs);
      next_.reset();
    }
    if (i >= logits_rows) continue;
    const auto logits = result.logits.subspan(i * vocab_size_, vocab_size_);
    if (request().logits) item.logits.assign(logits.begin(), logits.end());
    const size_t following = absorbed_ + i + 1;
    if (following < request().tokens.size()) {
      next_ = Judge(logits, request().tokens[following], result.sampler);
    }
  }
  absorbed_ += rows;
  Record(result.session, done(), "");
  summary().tokens += rows;
  summary().position = result.session.position();
}

ScoreTask::Verdict ScoreTask::Judge(std::span<const float> logits,
                                    int32_t token, Sampler& sampler) const {
  Verdict verdict;
  verdict.logprob = Sampler::Logprob(logits, token);
  if (request().top_logprobs.has_value()) {
    verdict.top_logprobs = sampler.TopLogprobs(logits, *request().top_logprobs);
  }
  return verdict;
}

}  // namespace steadystate
