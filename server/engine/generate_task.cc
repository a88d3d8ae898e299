#include "server/engine/generate_task.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/context_cap.h"

namespace steadystate {

GenerateTask::GenerateTask(GenerateRequest request,
                           std::shared_ptr<GenerateSink> sink,
                           const Model& model, Metrics& metrics,
                           size_t chunk_rows)
    : request_(std::move(request)),
      sink_(std::move(sink)),
      tokenizer_(model.tokenizer()),
      metrics_(metrics),
      chunk_rows_(chunk_rows),
      stop_tokens_(request_.stop_tokens) {
  if (!request_.ignore_eos) {
    const std::vector<int32_t>& eos = model.description().eos_tokens;
    stop_tokens_.insert(stop_tokens_.end(), eos.begin(), eos.end());
  }
  std::sort(stop_tokens_.begin(), stop_tokens_.end());
}

absl::Status GenerateTask::Begin(const SessionState& session) {
  STEADYSTATE_RETURN_IF_ERROR(CheckContextCap(session, request_.prompt.size()));
  if (request_.prompt.empty() && session.pending_hidden() == nullptr) {
    return MakeError(
        ErrorReason::kNoPendingLogits,
        absl::StrCat("the prompt is empty, and session '", request_.session,
                     "' has no logits to continue from: give a prompt"),
        {{"session", request_.session}});
  }
  position_ = session.position();
  if (tokenizer_ != nullptr) {
    text_.emplace(request_.stop_strings,
                  request_.prompt.empty() ? session.unfinished_text() : "");
  }
  if (request_.prompt.empty() && request_.max_tokens == uint64_t{0}) {
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
  piece.rows = std::min(chunk_rows_, request_.prompt.size() - prompt_absorbed_);
  piece.tokens =
      std::span(request_.prompt).subspan(prompt_absorbed_, piece.rows);
  const bool last = prompt_absorbed_ + piece.rows == request_.prompt.size();
  const bool draws = last && request_.max_tokens != uint64_t{0};
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
        std::min(chunk_rows_, request_.prompt.size() - prompt_absorbed_);
    if (prompt_absorbed_ < request_.prompt.size()) return;
    if (request_.max_tokens == uint64_t{0}) finish_ = FinishReason::kLength;
  }
  if (!finish_.has_value()) Draw(result);
}

bool GenerateTask::IsStopToken(int32_t token) const {
  return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

bool GenerateTask::WillBeLast(int32_t token) const {
  return IsStopToken(token) || request_.max_tokens == generated_ + 1;
}

void GenerateTask::Draw(const PieceResult& result) {
  outcome_ = CheckContextCap(result.session, 1);
  if (!outcome_.ok()) return;
  std::array<int32_t, kMaxPenaltyWindow> recent;
  const size_t count = result.session.CopyRecent(
      std::span(recent).first(RecentWanted(request_.sampling)));
  GeneratedToken& drawn = drawn_.emplace();
  drawn.token =
      result.sampler.Sample(result.logits, request_.sampling,
                            std::span(recent).first(count), position_);
  if (!request_.logprobs.has_value()) return;
  drawn.logprob = Sampler::Logprob(result.logits, drawn.token);
  if (*request_.logprobs > 0) {
    drawn.top_logprobs =
        result.sampler.TopLogprobs(result.logits, *request_.logprobs);
  }
}

// The drawn token has been absorbed.
void GenerateTask::Accept(const PieceResult& result) {
  item_ = std::move(drawn_);
  drawn_.reset();
  item_->position = position_;
  ++generated_;
  const bool is_stop_token = IsStopToken(item_->token);
  if (text_.has_value()) {
    if (!is_stop_token) {
      std::string bytes;
      tokenizer_->AppendBytes(item_->token, bytes);
      item_->text_delta = text_->Append(bytes);
    }
    result.session.set_unfinished_text(text_->unfinished());
  }
  if (is_stop_token) {
    finish_ = FinishReason::kStopToken;
  } else if (text_.has_value() && text_->stopped()) {
    finish_ = FinishReason::kStopString;
  } else if (request_.max_tokens == generated_) {
    finish_ = FinishReason::kLength;
  }
}

void GenerateTask::Deliver(const RequestTimes& times) {
  if (!item_.has_value()) return;
  const SteadyTime now = times.last_batch_end;
  if (last_delivery_ == SteadyTime::InfinitePast()) {
    time_to_first_token_ = now - times.submitted;
    metrics_.TimeToFirstToken(time_to_first_token_);
  } else {
    metrics_.InterTokenLatency(now - last_delivery_);
  }
  last_delivery_ = now;
  sink_->OnItem(std::move(*item_));
  item_.reset();
}

void GenerateTask::Finish(const absl::Status& status,
                          const RequestTimes& times) {
  if (!status.ok()) {
    sink_->OnDone(status);
    return;
  }
  GenerateSummary summary;
  summary.finish_reason = *finish_;
  summary.position = position_;
  summary.prompt_tokens = request_.prompt.size();
  summary.generated_tokens = generated_;
  if (text_.has_value() && !text_->stopped()) {
    summary.text_tail = text_->Flush();
  }
  if (times.first_batch != SteadyTime::InfinitePast()) {
    summary.queue_time = times.first_batch - times.submitted;
  }
  summary.time_to_first_token = time_to_first_token_;
  sink_->OnDone(std::move(summary));
}

uint64_t GenerateTask::input_bytes() const {
  return request_.prompt.size() * sizeof(int32_t);
}

}  // namespace steadystate
