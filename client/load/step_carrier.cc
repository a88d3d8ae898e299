#include "client/load/step_carrier.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/error.h"

namespace steadystate::client {
namespace {

// Of one message, and one prompt beyond: what a server takes is bounded in
// bytes, and in steps by --max_steps_per_message.
constexpr uint64_t kMaxMessageTokens = 4096;
constexpr int kMaxMessageSteps = 1024;

}  // namespace

StepCarrier::StepCarrier(const LoadContext& context,
                         v1::GenerationService::Stub& stub)
    : context_(context),
      in_flight_(Slot(context.options.sessions - 1) + 1, nullptr) {
  request_.mutable_step()->mutable_output()->mutable_sample()->set_seed(
      context.options.seed);
  stub.async()->StreamStep(&call_, this);
  // Requests come from outside the stream's own callbacks, until Close.
  AddHold();
  StartRead(&response_);
  StartCall();
}

void StepCarrier::Begin(const Turn& turn) {
  {
    const MutexLock lock(mutex_);
    BeginLocked(turn);
  }
  Flush();
}

void StepCarrier::BeginLocked(const Turn& turn) {
  LoadSession& session = *turn.session;
  session.Begin(turn.intended, tally_);
  if (broken_) {
    const SessionFate fate =
        session.Fail(absl::UnavailableError("the stream has ended"),
                     /*all_or_nothing=*/true, context_.window, tally_);
    Finish(session, fate, turn.intended);
    return;
  }
  Enqueue(session, std::nullopt);
}

void StepCarrier::Enqueue(LoadSession& session,
                          const std::optional<int32_t>& token) {
  in_flight_[Slot(session.index())] = &session;
  const uint64_t prompt_tokens =
      token ? 0 : session.TakePrompt(context_.max_step_tokens);
  session.Sent(token ? 1 : prompt_tokens);
  outbox_.push_back({&session, token, prompt_tokens, !session.has_prompt()});
}

// Steps that are ready together travel together.
void StepCarrier::FillRequest() {
  request_.Clear();
  uint64_t tokens = 0;
  while (!outbox_.empty() && tokens < kMaxMessageTokens &&
         request_.requests_size() < kMaxMessageSteps) {
    const Step& next = outbox_.front();
    v1::StreamStepRequest::Request& request = *request_.add_requests();
    request.set_request_id(absl::StrCat(next.session->index()));
    FillStep(next, *request.mutable_step());
    tokens += static_cast<uint64_t>(request.step().tokens().ids_size());
    outbox_.pop_front();
  }
}

void StepCarrier::FillStep(const Step& next, v1::StepRequest& to) {
  LoadSession& session = *next.session;
  if (next.samples) {
    to.mutable_output()->mutable_sample()->set_seed(context_.options.seed);
  }
  to.set_session(session.name());
  to.set_expected_position(session.position());
  auto& ids = *to.mutable_tokens()->mutable_ids();
  if (next.token) {
    ids.Add(*next.token);
  } else {
    for (uint64_t i = 0; i < next.prompt_tokens; ++i) {
      ids.Add(session.DrawPromptToken());
    }
  }
}

void StepCarrier::Flush() {
  {
    const MutexLock lock(mutex_);
    if (writing_ || broken_ || outbox_.empty()) return;
    writing_ = true;
    FillRequest();
  }
  StartWrite(&request_);
}

void StepCarrier::OnWriteDone(bool ok) {
  bool close = false;
  {
    const MutexLock lock(mutex_);
    writing_ = false;
    close = closing_ && ok;
  }
  // Where it failed, the read fails too and tells.
  if (close) {
    StartWritesDone();
  } else if (ok) {
    Flush();
  }
}

void StepCarrier::OnReadDone(bool ok) {
  {
    const MutexLock lock(mutex_);
    if (!ok) {
      broken_ = true;
      FailAll();
      return;
    }
    const LoadTime now = LoadClock::now();
    for (const Result& result : response_.results()) Take(result, now);
  }
  Flush();
  StartRead(&response_);
}

void StepCarrier::Take(const Result& result, LoadTime now) {
  size_t index = 0;
  if (!absl::SimpleAtoi(result.request_id(), &index) ||
      Slot(index) >= in_flight_.size()) {
    return;
  }
  LoadSession* const session = in_flight_[Slot(index)];
  if (session == nullptr) return;
  if (result.has_step()) {
    TakeStep(*session, result.step(), now);
    return;
  }
  const SessionFate fate =
      session->Fail(ToStatus(result.error()),
                    /*all_or_nothing=*/true, context_.window, tally_);
  Finish(*session, fate, now);
}

void StepCarrier::TakeStep(LoadSession& session, const v1::StepResponse& step,
                           LoadTime now) {
  session.Absorbed(step.position(), /*generated=*/0, tally_);
  if (context_.window.Contains(now)) {
    tally_.server_queue.Record(ToNanoseconds(step.timing().queue()));
    tally_.server_compute.Record(ToNanoseconds(step.timing().compute()));
  }
  const bool drawn = !session.has_prompt();
  if (drawn) session.Received(1, now, context_.window, tally_);
  if (drawn && session.complete()) {
    Finish(session, session.Complete(now, context_.window, tally_), now);
  } else if (context_.pool.cut()) {
    session.Cut(now, context_.window, tally_);
    Finish(session, SessionFate::kGoesOn, now);
  } else {
    Enqueue(session,
            drawn ? std::optional(step.sampled_token()) : std::nullopt);
  }
}

void StepCarrier::Finish(LoadSession& session, SessionFate fate, LoadTime now) {
  in_flight_[Slot(session.index())] = nullptr;
  const auto next = context_.pool.Finish(session, fate, now);
  if (next) BeginLocked(*next);
}

// The stream has ended with these requests unanswered.
void StepCarrier::FailAll() {
  outbox_.clear();
  const LoadTime now = LoadClock::now();
  for (LoadSession* const session : in_flight_) {
    if (session == nullptr) continue;
    if (context_.pool.cut()) {
      session->CutShort(now, context_.window, tally_);
      Finish(*session, SessionFate::kGoesOn, now);
      continue;
    }
    const SessionFate fate =
        session->Fail(absl::UnavailableError("the stream has ended"),
                      /*all_or_nothing=*/false, context_.window, tally_);
    Finish(*session, fate, now);
  }
}

void StepCarrier::Cancel() { call_.TryCancel(); }

void StepCarrier::Close() {
  bool close = false;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    close = !writing_ && !broken_;
  }
  if (close) StartWritesDone();
  RemoveHold();
}

void StepCarrier::OnDone(const grpc::Status& status) {
  const MutexLock lock(mutex_);
  const absl::Status end = ToStatus(status);
  // What the connection has to say was counted with every request that it left
  // unanswered.
  if (GetErrorDetails(end)) {
    tally_.CountError(end);
  } else if (absl::IsCancelled(end)) {
    ++tally_.given_up;
  }
  done_ = true;
  done_changed_.SignalAll();
}

void StepCarrier::WaitUntilClosed() {
  const MutexLock lock(mutex_);
  while (!done_) done_changed_.Wait(mutex_);
}

Tally StepCarrier::tally() const {
  const MutexLock lock(mutex_);
  return tally_;
}

Carrier::Progress StepCarrier::progress() const {
  const MutexLock lock(mutex_);
  return {tally_.drawn_tokens, tally_.failed};
}

}  // namespace steadystate::client
