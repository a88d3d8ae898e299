#include "client/load/session_pool.h"

#include <algorithm>
#include <utility>

#include "steadystate/error.h"

namespace steadystate::client {
namespace {

// How long a session rests after an error that may pass, if the server does not
// say so.
constexpr absl::Duration kRest = absl::Milliseconds(100);

bool IsGone(v1::ErrorReason reason) {
  return reason == v1::SESSION_NOT_FOUND || reason == v1::SESSION_EXPIRED;
}

// The session is of no more use, but a new one may be.
bool NeedsNewSession(v1::ErrorReason reason) {
  return IsGone(reason) || reason == v1::CONTEXT_CAP_REACHED ||
         reason == v1::INTERNAL;
}

// Requests are refused so before they begin.
bool ComesFirst(v1::ErrorReason reason) {
  return reason == v1::SESSION_BUSY || reason == v1::POSITION_MISMATCH ||
         reason == v1::QUEUE_FULL || reason == v1::TOKEN_OUT_OF_RANGE ||
         reason == v1::INVALID_ARGUMENT;
}

// These may also end a request that has begun, if it has several parts.
bool ChangesNothing(v1::ErrorReason reason) {
  return IsGone(reason) || reason == v1::CONTEXT_CAP_REACHED;
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

void LoadSession::Begin(const Turn& turn, Tally& tally) {
  ++tally.begun;
  asked_ = true;
  intended_ = turn.intended;
  begun_ = LoadClock::now();
  shape_ = plan_.Of(turn.number);
  prompt_left_ = shape_.prompt_tokens;
  drawn_ = 0;
}

std::vector<int32_t> LoadSession::TakePrompt(uint64_t most) {
  std::vector<int32_t> tokens(std::min(prompt_left_, most));
  if (shape_.prompt != nullptr) {
    const auto rest =
        shape_.prompt->end() - static_cast<ptrdiff_t>(prompt_left_);
    std::copy_n(rest, tokens.size(), tokens.begin());
  } else {
    for (int32_t& token : tokens) {
      token = static_cast<int32_t>(random_.Below(vocab_size_));
    }
  }
  prompt_left_ -= tokens.size();
  return tokens;
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
      tally.timeline.At(intended_ - window.begin())
          .time_to_first_token.Record(now - intended_);
    }
    if (window.Contains(now)) {
      tally.window_prompt_tokens += shape_.prompt_tokens;
    }
    first_token_ = now;
  } else if (window.Contains(last_token_)) {
    // Those that arrive together have shared the time.
    const auto gap = (now - last_token_) / static_cast<LoadClock::rep>(tokens);
    tally.inter_token.Record(gap, tokens);
    tally.timeline.At(last_token_ - window.begin())
        .inter_token.Record(gap, tokens);
  }
  last_token_ = now;
  drawn_ += tokens;
  tally.drawn_tokens += tokens;
  if (!window.Contains(now)) return;
  tally.window_drawn_tokens += tokens;
  tally.timeline.At(now - window.begin()).drawn_tokens += tokens;
}

void LoadSession::CountTimes(LoadTime now, Tally& tally) const {
  RequestTimes times;
  times.first_token = first_token_ - intended_;
  times.whole = now - intended_;
  if (drawn_ > 1) {
    times.per_output_token =
        (last_token_ - first_token_) / static_cast<LoadClock::rep>(drawn_ - 1);
    tally.time_per_output_token.Record(times.per_output_token);
  }
  tally.request.Record(times.whole);
  if (plan_.options().slo.Meets(times)) ++tally.window_good;
}

SessionFate LoadSession::Complete(LoadTime now, const Window& window,
                                  Tally& tally) {
  ++tally.completed;
  if (window.Contains(now)) {
    ++tally.window_completed;
    ++tally.timeline.At(now - window.begin()).completed;
  }
  if (window.Contains(intended_)) CountTimes(now, tally);
  if (context_cap_ == 0 || position_ + plan_.most_tokens() <= context_cap_) {
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
  if (window.Contains(intended_)) {
    ++tally.window_failed;
    ++tally.timeline.At(intended_ - window.begin()).failed;
  }
  tally.CountError(status);
  const auto details = GetErrorDetails(status);
  if (details) answered_ = true;
  const v1::ErrorReason reason = ReasonOf(status);
  const bool refused =
      ComesFirst(reason) || (all_or_nothing && ChangesNothing(reason));
  doubt_ = refused ? Doubt::kPosition : Doubt::kAbsorbed;
  if (IsGone(reason)) exists_ = false;
  mending_ = {kRest, false};
  if (NeedsNewSession(reason)) {
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

std::optional<Turn> SessionPool::Add(LoadSession& session, LoadTime now) {
  const MutexLock lock(mutex_);
  ++counts_.alive;
  return BeginNext(session, now);
}

std::optional<Turn> SessionPool::GiveBack(LoadSession& session, LoadTime now) {
  const MutexLock lock(mutex_);
  return BeginNext(session, now);
}

void SessionPool::Retire() {
  const MutexLock lock(mutex_);
  --counts_.alive;
  changed_.SignalOne();
}

std::optional<Turn> SessionPool::Arrive(LoadTime intended) {
  const MutexLock lock(mutex_);
  if (stopped_) return std::nullopt;
  if (free_.empty()) {
    if (backlog_.size() == max_backlog_) {
      ++unsent_;
      return std::nullopt;
    }
    backlog_.push_back(intended);
    peak_backlog_ = std::max(peak_backlog_, backlog_.size());
    return std::nullopt;
  }
  LoadSession* const session = free_.front();
  free_.pop_front();
  return TurnOf(*session, intended);
}

Turn SessionPool::TurnOf(LoadSession& session, LoadTime intended) {
  ++counts_.busy;
  peak_busy_ = std::max(peak_busy_, counts_.busy);
  return {&session, intended, begun_++};
}

// The session has nothing to do.
std::optional<Turn> SessionPool::BeginNext(LoadSession& session, LoadTime now) {
  if (!backlog_.empty()) {
    const LoadTime intended = backlog_.front();
    backlog_.pop_front();
    return TurnOf(session, intended);
  }
  if (open_loop_ || stopped_) {
    free_.push_back(&session);
    return std::nullopt;
  }
  return TurnOf(session, now);
}

std::optional<Turn> SessionPool::Finish(LoadSession& session, SessionFate fate,
                                        LoadTime now) {
  std::optional<Turn> next;
  bool tell = false;
  {
    const MutexLock lock(mutex_);
    --counts_.busy;
    switch (fate) {
      case SessionFate::kGoesOn:
        next = BeginNext(session, now);
        break;
      case SessionFate::kBroken:
        broken_.push_back(&session);
        broken_changed_.SignalOne();
        break;
      case SessionFate::kRetired:
        --counts_.alive;
        break;
    }
    tell = fate == SessionFate::kRetired || Quiet();
  }
  if (tell) changed_.SignalOne();
  return next;
}

LoadSession* SessionPool::TakeBroken() {
  const MutexLock lock(mutex_);
  if (broken_.empty()) return nullptr;
  LoadSession* const session = broken_.front();
  broken_.pop_front();
  return session;
}

bool SessionPool::WaitForBroken(LoadTime time) {
  const MutexLock lock(mutex_);
  while (broken_.empty() && !mending_over_ &&
         broken_changed_.WaitUntil(mutex_, time)) {
  }
  return !mending_over_;
}

void SessionPool::StopMending() {
  const MutexLock lock(mutex_);
  mending_over_ = true;
  broken_changed_.SignalOne();
}

std::deque<LoadTime> SessionPool::Stop(bool cut) {
  const MutexLock lock(mutex_);
  stopped_ = true;
  if (!cut) return {};
  cut_ = true;
  unsent_ += backlog_.size();
  return std::exchange(backlog_, {});
}

SessionPool::Counts SessionPool::counts() const {
  const MutexLock lock(mutex_);
  Counts counts = counts_;
  counts.backlog = backlog_.size();
  return counts;
}

size_t SessionPool::peak_busy() const {
  const MutexLock lock(mutex_);
  return peak_busy_;
}

size_t SessionPool::peak_backlog() const {
  const MutexLock lock(mutex_);
  return peak_backlog_;
}

uint64_t SessionPool::unsent() const {
  const MutexLock lock(mutex_);
  return unsent_;
}

bool SessionPool::Quiet() const {
  return stopped_ && counts_.busy == 0 && backlog_.empty();
}

void SessionPool::WaitUntil(LoadTime time) {
  const MutexLock lock(mutex_);
  while (counts_.alive > 0 && !Quiet() && changed_.WaitUntil(mutex_, time)) {
  }
}

}  // namespace steadystate::client
