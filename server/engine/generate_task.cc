#include "server/engine/generate_task.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/binary.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
namespace steadystate {
namespace {

// A record and a history that do not belong together, from outside.
absl::Status NotItsTokens(const SessionState& session) {
  return MakeError(ErrorReason::kReplayUnavailable,
                   "what the session has absorbed is not what the request "
                   "generated: go on from its position",
                   {{"position", absl::StrCat(session.position())}});
}

}  // namespace

void GenerateTask::Start() {
  stop_tokens_ = request().stop_tokens;
  if (!request().ignore_eos) {
    const std::vector<int32_t>& eos = model_.description().eos_tokens;
    stop_tokens_.insert(stop_tokens_.end(), eos.begin(), eos.end());
  }
  std::sort(stop_tokens_.begin(), stop_tokens_.end());
  prompt_absorbed_ = 0;
  prefix_work_ = PrefixWork::kNone;
  from_prompt_ = false;
  generated_ = 0;
  finish_.reset();
  outcome_ = absl::OkStatus();
  replay_next_ = replay_end_ = 0;
  ends_with_replay_ = false;
  last_handed_over_ = SteadyTime::InfinitePast();
  time_to_first_token_ = absl::ZeroDuration();
}

void GenerateTask::Clear(GenerateRequest& request, GenerateSummary& summary) {
  request = {};
  summary = {};
  Empty(stop_tokens_);
  drawn_.reset();
  text_.reset();
  text_before_.clear();
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
  if (request().prompt.empty()) text_before_ = session.unfinished_text();
  OpenText();
  if (request().prompt.empty() && request().max_tokens == uint64_t{0}) {
    finish_ = FinishReason::kLength;
  }
  if (!request().reuse_prefix || request().prompt.empty()) {
    return absl::OkStatus();
  }
  from_prompt_ = position_ == 0;
  if (from_prompt_) {
    prefix_work_ = PrefixWork::kReuse;
  } else {
    summary().prefix_reuse = PrefixReuse::kSessionNotNew;
    metrics_.PrefixAsked(PrefixReuse::kSessionNotNew, 0);
  }
  return absl::OkStatus();
}

absl::Status GenerateTask::Work(Session& session) {
  if (std::exchange(prefix_work_, PrefixWork::kNone) == PrefixWork::kReuse) {
    return Reuse(session);
  }
  keeper_.prefixes().Keep(session,
                          std::span(request().prompt).first(prompt_absorbed_));
  return absl::OkStatus();
}

absl::Status GenerateTask::Reuse(Session& session) {
  const auto begun = [this](SessionState& state) {
    const bool finished = state.position() == request().prompt.size() &&
                          request().max_tokens == uint64_t{0};
    Record(state, finished, RecordedAnswer());
  };
  STEADYSTATE_ASSIGN_OR_RETURN(
      const SessionPrefixes::Reused reused,
      keeper_.prefixes().Reuse(session, session.owner, request().prompt,
                               begun));
  summary().prefix_reuse = reused.result;
  summary().reused_tokens = reused.tokens;
  position_ = reused.tokens;
  AdvancePrompt(static_cast<size_t>(reused.tokens));
  // That much is kept.
  prefix_work_ = PrefixWork::kNone;
  return absl::OkStatus();
}

// How much of the prompt is kept for later ones: what those that go on after it
// absorb with the same cuts.
size_t GenerateTask::KeptPrompt() const {
  const size_t prompt = request().prompt.size();
  return from_prompt_ ? prompt - prompt % chunk_rows_ : 0;
}

void GenerateTask::AdvancePrompt(size_t tokens) {
  prompt_absorbed_ += tokens;
  if (tokens > 0 && prompt_absorbed_ == KeptPrompt()) {
    prefix_work_ = PrefixWork::kKeep;
  }
  if (prompt_absorbed_ == request().prompt.size() &&
      request().max_tokens == uint64_t{0}) {
    finish_ = FinishReason::kLength;
  }
}

absl::Status GenerateTask::Resume(const RequestRecord& record,
                                  const SessionState& session) {
  BinaryReader answer(record.answer);
  mutable_request().sampling.seed = answer.Number<uint64_t>();
  text_before_ = std::string(answer.Bytes(answer.left()));
  OpenText();
  const uint64_t absorbed = record.end - record.begin;
  const uint64_t prompt = request().prompt.size();
  prompt_absorbed_ = static_cast<size_t>(std::min(absorbed, prompt));
  position_ = record.begin + prompt_absorbed_;
  if (absorbed < prompt) return CheckContextCap(session, prompt - absorbed);
  if (request().max_tokens == uint64_t{0}) finish_ = FinishReason::kLength;
  replay_next_ = position_;
  replay_end_ = record.end;
  ends_with_replay_ = record.finished;
  if (!finish_.has_value() && session.pending_hidden() == nullptr) {
    return ReplayUnavailable(record, "the session has no logits");
  }
  if (!replaying()) {
    // Nothing was generated, and nothing is to be: that cannot be.
    return record.finished && !finish_.has_value()
               ? ReplayUnavailable(record, "its tokens are not known")
               : absl::OkStatus();
  }
  if (request().logprobs.has_value()) {
    return ReplayUnavailable(record, "log-probabilities were not kept");
  }
  if (replay_next_ < session.history_begin()) {
    return ReplayUnavailable(
        record,
        absl::StrCat("of these the session remembers the tokens from position ",
                     session.history_begin(),
                     " on (--history): rewind it to where the last one that "
                     "has arrived took it, and generate without a prompt by "
                     "the same seed, or leave out what is missing"));
  }
  return absl::OkStatus();
}

void GenerateTask::OpenText() {
  if (model_.tokenizer() == nullptr) return;
  text_.emplace(request().stop_strings, text_before_);
}

Piece GenerateTask::Next() const {
  Piece piece;
  if (replaying()) return piece;  // on a thread that nobody waits for
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
  if (replaying()) {
    Replay(result.session);
    if (replaying() || !outcome_.ok()) return;
    if (ends_with_replay_ && !finish_.has_value()) {
      outcome_ = NotItsTokens(result.session);
      return;
    }
  } else {
    Absorb(result);
    if (prompt_absorbed_ < request().prompt.size()) return;
  }
  if (!finish_.has_value()) Draw(result);
}

// The session has absorbed a drawn token, or a piece of the prompt, or nothing.
void GenerateTask::Absorb(const PieceResult& result) {
  const bool absorbed = position_ != result.session.position();
  prefix_work_ = PrefixWork::kNone;
  position_ = result.session.position();
  if (drawn_.has_value()) {
    Accept(*std::exchange(drawn_, std::nullopt));
    if (text_.has_value()) {
      result.session.set_unfinished_text(text_->unfinished());
    }
  } else {
    AdvancePrompt(
        std::min(chunk_rows_, request().prompt.size() - prompt_absorbed_));
  }
  if (absorbed) Record(result.session, finish_.has_value(), RecordedAnswer());
}

// What a repeat needs beside its own text: the seed, and the text before.
std::string GenerateTask::RecordedAnswer() const {
  std::string answer;
  if (!request().keyed()) return answer;
  BinaryWriter(answer).Number(request().sampling.seed);
  answer += text_before_;
  return answer;
}

// Hands over some of the tokens that were absorbed before.
void GenerateTask::Replay(const SessionState& session) {
  std::array<int32_t, kMaxReplayedAtOnce> tokens;
  const auto count = static_cast<size_t>(
      std::min<uint64_t>(tokens.size(), replay_end_ - replay_next_));
  session.CopyHistory(replay_next_, std::span(tokens).first(count));
  replay_next_ += count;
  for (size_t i = 0; i < count && !finish_.has_value(); ++i) {
    // A history may come from outside, with a snapshot.
    if (tokens[i] < 0) {
      outcome_ = NotItsTokens(session);
      return;
    }
    ++position_;
    GeneratedToken token;
    token.token = tokens[i];
    token.replayed = true;
    Accept(std::move(token));
  }
  summary().replayed_tokens += count;
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

// The token has been absorbed, and takes the session to position_.
void GenerateTask::Accept(GeneratedToken token) {
  GeneratedToken& item = items().emplace_back(std::move(token));
  item.position = position_;
  ++generated_;
  const bool is_stop_token = IsStopToken(item.token);
  if (text_.has_value() && !is_stop_token) {
    std::string bytes;
    model_.tokenizer()->AppendBytes(item.token, bytes);
    item.text_delta = text_->Append(bytes);
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
  to.seed = request().sampling.seed;
  if (text_.has_value() && !text_->stopped()) to.text_tail = text_->Flush();
  if (times.first_batch != SteadyTime::InfinitePast()) {
    to.queue_time = times.first_batch - times.submitted;
  }
  to.time_to_first_token = time_to_first_token_;
  metrics_.Generated(*finish_, to.prompt_tokens, generated_);
}

}  // namespace steadystate
