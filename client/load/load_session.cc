#include "client/load/load_session.h"

#include <algorithm>
#include <set>

#include "client/error.h"

namespace steadystate::client {
namespace {

// How long a session rests after an error that may pass, if the server does not
// say so.
constexpr absl::Duration kRest = absl::Milliseconds(100);

// Reasons after which a session is of no more use, but a new one may be.
bool NeedsNewSession(const std::string& reason) {
  static const auto* const reasons =
      new std::set<std::string>{"SESSION_NOT_FOUND", "SESSION_EXPIRED",
                                "CONTEXT_CAP_REACHED", "INTERNAL"};
  return reasons->count(reason) > 0;
}

bool IsGone(const std::string& reason) {
  return reason == "SESSION_NOT_FOUND" || reason == "SESSION_EXPIRED";
}

}  // namespace

void LoadSession::Replace(const std::string& name) {
  name_ = name;
  position_ = 0;
  unanswered_ = 0;
  uncertain_ = false;
  exists_ = true;
  mending_ = {};
}

void LoadSession::Begin(LoadTime intended, Tally& tally) {
  ++tally.begun;
  intended_ = intended;
  drawn_ = 0;
}

void LoadSession::Absorbed(uint64_t position, uint64_t generated,
                           Tally& tally) {
  tally.absorbed.prompt += unanswered_;
  tally.absorbed.generated += generated;
  unanswered_ = 0;
  position_ = position;
}

void LoadSession::Received(uint64_t tokens, LoadTime now, const Window& window,
                           Tally& tally) {
  if (tokens == 0) return;
  if (drawn_ == 0) {
    if (window.Contains(intended_)) {
      tally.time_to_first_token.Record(now - intended_);
    }
    if (window.Contains(now)) {
      tally.window_prompt_tokens += options_.prompt_tokens;
    }
  } else if (window.Contains(last_token_)) {
    // Those that arrive together have shared the time.
    tally.inter_token.Record(
        (now - last_token_) / static_cast<LoadClock::rep>(tokens), tokens);
  }
  last_token_ = now;
  drawn_ += tokens;
  tally.drawn_tokens += tokens;
  if (window.Contains(now)) tally.window_drawn_tokens += tokens;
}

SessionFate LoadSession::Complete(LoadTime now, const Window& window,
                                  Tally& tally) {
  ++tally.completed;
  if (window.Contains(now)) ++tally.window_completed;
  if (window.Contains(intended_)) tally.request.Record(now - intended_);
  const uint64_t next = options_.prompt_tokens + options_.generate_tokens;
  if (context_cap_ == 0 || position_ + next <= context_cap_) {
    return SessionFate::kGoesOn;
  }
  mending_ = {absl::ZeroDuration(), /*replace=*/true};
  return SessionFate::kBroken;
}

void LoadSession::CutShort(Tally& tally) {
  ++tally.cut;
  ++tally.server_errors["CANCELLED"];
  uncertain_ = true;
}

SessionFate LoadSession::Fail(const absl::Status& status, bool all_or_nothing,
                              Tally& tally) {
  ++tally.failed;
  tally.CountError(status);
  const auto details = GetErrorDetails(status);
  const std::string reason = ReasonOf(status);
  uncertain_ = true;
  if (details && IsGone(reason)) {
    exists_ = false;
    if (all_or_nothing || unanswered_ == 0) uncertain_ = false;
  }
  mending_ = {kRest, false};
  if (details && NeedsNewSession(reason)) {
    mending_.replace = true;
    return SessionFate::kBroken;
  }
  if (absl::IsUnavailable(status) || absl::IsInvalidArgument(status)) {
    return SessionFate::kRetired;
  }
  if (details && details->retry_after) mending_.rest = *details->retry_after;
  return SessionFate::kBroken;
}

void LoadSession::Reconcile(uint64_t position, Tally& tally) {
  const uint64_t absorbed = position - std::min(position, position_);
  const uint64_t prompt = std::min(absorbed, unanswered_);
  tally.absorbed.prompt += prompt;
  tally.absorbed.generated += absorbed - prompt;
  position_ = position;
  unanswered_ = 0;
  uncertain_ = false;
}

void LoadSession::GiveUpReconciling(Tally& tally) {
  ++tally.of_unknown_extent;
  unanswered_ = 0;
  uncertain_ = false;
}

}  // namespace steadystate::client
