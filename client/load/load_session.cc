#include "client/load/load_session.h"

#include <algorithm>
#include <initializer_list>

#include "client/error.h"

namespace steadystate::client {
namespace {

// How long a session rests after an error that may pass, if the server does not
// say so.
constexpr absl::Duration kRest = absl::Milliseconds(100);

bool IsOneOf(const std::string& reason,
             std::initializer_list<const char*> reasons) {
  return std::find(reasons.begin(), reasons.end(), reason) != reasons.end();
}

bool IsGone(const std::string& reason) {
  return IsOneOf(reason, {"SESSION_NOT_FOUND", "SESSION_EXPIRED"});
}

// The session is of no more use, but a new one may be.
bool NeedsNewSession(const std::string& reason) {
  return IsGone(reason) || IsOneOf(reason, {"CONTEXT_CAP_REACHED", "INTERNAL"});
}

// Requests are refused so before they begin.
bool ComesFirst(const std::string& reason) {
  return IsOneOf(reason, {"SESSION_BUSY", "POSITION_MISMATCH", "QUEUE_FULL",
                          "TOKEN_OUT_OF_RANGE", "INVALID_ARGUMENT"});
}

// These may also end a request that has begun, if it has several parts.
bool ChangesNothing(const std::string& reason) {
  return IsGone(reason) || reason == "CONTEXT_CAP_REACHED";
}

}  // namespace

void LoadSession::Replace(const std::string& name) {
  name_ = name;
  position_ = 0;
  unanswered_ = 0;
  doubt_ = Doubt::kNone;
  exists_ = true;
  mending_ = {};
}

void LoadSession::Begin(LoadTime intended, Tally& tally) {
  ++tally.begun;
  asked_ = true;
  intended_ = intended;
  prompt_left_ = options_.prompt_tokens;
  drawn_ = 0;
}

uint64_t LoadSession::TakePrompt(uint64_t most) {
  const uint64_t taken = std::min(prompt_left_, most);
  prompt_left_ -= taken;
  return taken;
}

void LoadSession::Absorbed(uint64_t position, uint64_t generated,
                           Tally& tally) {
  tally.absorbed.prompt += unanswered_;
  tally.absorbed.generated += generated;
  answered_ = true;
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

void LoadSession::Cut(LoadTime now, const Window& window, Tally& tally) {
  ++tally.cut;
  if (drawn_ == 0) {
    tally.CountUnanswered(intended_, now, window);
    return;
  }
  if (window.Contains(last_token_)) {
    tally.inter_token.Record(now - last_token_);
  }
  if (!window.Contains(intended_)) return;
  ++tally.window_unanswered;
  tally.request.Record(now - intended_);
}

void LoadSession::CutShort(LoadTime now, const Window& window, Tally& tally) {
  Cut(now, window, tally);
  ++tally.given_up;
  doubt_ = Doubt::kAbsorbed;
}

SessionFate LoadSession::Fail(const absl::Status& status, bool all_or_nothing,
                              const Window& window, Tally& tally) {
  ++tally.failed;
  if (window.Contains(intended_)) ++tally.window_failed;
  tally.CountError(status);
  const auto details = GetErrorDetails(status);
  if (details) answered_ = true;
  const std::string reason = ReasonOf(status);
  const bool refused = details && (ComesFirst(reason) ||
                                   (all_or_nothing && ChangesNothing(reason)));
  doubt_ = refused ? Doubt::kPosition : Doubt::kAbsorbed;
  if (details && IsGone(reason)) exists_ = false;
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
  if (doubt_ == Doubt::kAbsorbed) {
    const uint64_t absorbed = position - std::min(position, position_);
    const uint64_t prompt = std::min(absorbed, unanswered_);
    tally.absorbed.prompt += prompt;
    tally.absorbed.generated += absorbed - prompt;
  }
  position_ = position;
  unanswered_ = 0;
  doubt_ = Doubt::kNone;
}

void LoadSession::GiveUpReconciling(Tally& tally) {
  if (doubt_ == Doubt::kAbsorbed) ++tally.of_unknown_extent;
  unanswered_ = 0;
  doubt_ = Doubt::kNone;
}

}  // namespace steadystate::client
