#include "server/engine/generate_task.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {

void GenerateTask::Start() {
  stop_tokens_ = request().stop_tokens;
  if (!request().ignore_eos) {
    const std::vector<int32_t>& eos = model_.description().eos_tokens;
    stop_tokens_.insert(stop_tokens_.end(), eos.begin(), eos.end());
  }
  std::sort(stop_tokens_.begin(), stop_tokens_.end());
  prompt_absorbed_ = 0;
  generated_ = 0;
  finish_.reset();
  outcome_ = absl::OkStatus();
  last_handed_over_ = SteadyTime::InfinitePast();
  time_to_first_token_ = absl::ZeroDuration();
}

void GenerateTask::Clear(GenerateRequest& request, GenerateSummary& summary) {
  request = {};
  summary = {};
  Empty(stop_tokens_);
  drawn_.reset();
  text_.reset();
}

absl::Status GenerateTask::Begin(const SessionState& session) {
  STEADYSTATE_RETURN_IF_ERROR(
      CheckContextCap(session, request().prompt.size()));
  if (request().prompt.empty() && session.pending_hidden() == nullptr) {
    return MakeError(
        ErrorReason::kNoPendingLogits,
        absl::StrCat("the prompt is empty, and session '", request().session,
                     "' has no logits to continue from: give a prompt"),
        {{"session", request().session}});
  }
  position_ = session.position();
  if (model_.tokenizer() != nullptr) {
    text_.emplace(request().stop_strings,
                  request().prompt.empty() ? session.unfinished_text() : "");
  }
  if (request().prompt.empty() && request().max_tokens == uint64_t{0}) {
    finish_ = FinishReason::kLength;
  }
  return absl::OkStatus();
}

Piece GenerateTask::Next() const {
  Piece piece;
  if (drawn_.has_value()) {
    piece.tokens = std::span(&drawn_->token, 1);
    piece.kind = TokenKind::kGenerated;
    piece.rows = 1;
    piece.logits_end = WillBeLast(drawn_->token) ? 0 : 1;
    return piece;
  }
  // Once the prompt is absorbed, or empty, no row is left: the pending logits.
  piece.rows =
      std::min(chunk_rows_, request().prompt.size() - prompt_absorbed_);
  piece.tokens =
      std::span(request().prompt).subspan(prompt_absorbed_, piece.rows);
  const bool last = prompt_absorbed_ + piece.rows == request().prompt.size();
  const bool draws = last && request().max_tokens != uint64_t{0};
  piece.logits_end = piece.rows;
  piece.logits_begin = piece.rows - (draws && piece.rows > 0 ? 1 : 0);
  return piece;
}

void GenerateTask::Advance(const PieceResult& result) {
  position_ = result.session.position();
  if (drawn_.has_value()) {
    Accept(result);
  } else {
    prompt_absorbed_ +=
        std::min(chunk_rows_, request().prompt.size() - prompt_absorbed_);
    if (prompt_absorbed_ < request().prompt.size()) return;
    if (request().max_tokens == uint64_t{0}) finish_ = FinishReason::kLength;
  }
  if (!finish_.has_value()) Draw(result);
}

bool GenerateTask::IsStopToken(int32_t token) const {
  return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

bool GenerateTask::WillBeLast(int32_t token) const {
  return IsStopToken(token) || request().max_tokens == generated_ + 1;
}

void GenerateTask::Draw(const PieceResult& result) {
  outcome_ = CheckContextCap(result.session, 1);
  if (!outcome_.ok()) return;
  std::array<int32_t, kMaxPenaltyWindow> recent;
  const size_t count = result.session.CopyRecent(
      std::span(recent).first(RecentWanted(request().sampling)));
  GeneratedToken& drawn = drawn_.emplace();
  drawn.token =
      result.sampler.Sample(result.logits, request().sampling,
                            std::span(recent).first(count), position_);
  if (!request().logprobs.has_value()) return;
  drawn.logprob = Sampler::Logprob(result.logits, drawn.token);
  if (*request().logprobs > 0) {
    drawn.top_logprobs =
        result.sampler.TopLogprobs(result.logits, *request().logprobs);
  }
}

// The drawn token has been absorbed.
void GenerateTask::Accept(const PieceResult& result) {
  GeneratedToken& item = items().emplace_back(*std::move(drawn_));
  drawn_.reset();
  item.position = position_;
  ++generated_;
  const bool is_stop_token = IsStopToken(item.token);
  if (text_.has_value()) {
    if (!is_stop_token) {
      std::string bytes;
      model_.tokenizer()->AppendBytes(item.token, bytes);
      item.text_delta = text_->Append(bytes);
    }
    result.session.set_unfinished_text(text_->unfinished());
  }
  if (is_stop_token) {
    finish_ = FinishReason::kStopToken;
  } else if (text_.has_value() && text_->stopped()) {
    finish_ = FinishReason::kStopString;
  } else if (request().max_tokens == generated_) {
    finish_ = FinishReason::kLength;
  }
}

void GenerateTask::HandOver(const RequestTimes& times) {
  const SteadyTime now = times.last_batch_end;
  if (last_handed_over_ == SteadyTime::InfinitePast()) {
    time_to_first_token_ = now - times.submitted;
    metrics_.TimeToFirstToken(time_to_first_token_);
  } else {
    metrics_.InterTokenLatency(now - last_handed_over_);
  }
  last_handed_over_ = now;
}

void GenerateTask::Summarize(const RequestTimes& times, GenerateSummary& to) {
  to.finish_reason = *finish_;
  to.position = position_;
  to.prompt_tokens = request().prompt.size();
  to.generated_tokens = generated_;
  if (text_.has_value() && !text_->stopped()) to.text_tail = text_->Flush();
  if (times.first_batch != SteadyTime::InfinitePast()) {
    to.queue_time = times.first_batch - times.submitted;
  }
  to.time_to_first_token = time_to_first_token_;
}

}  // namespace steadystate
