#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "client/load/carrier.h"
#include "client/mutex.h"
#include "steadystate/error.h"
#include "steadystate/step_stream.h"

namespace steadystate::client {
namespace {

// Lock order: mutex_, then those of the pool and of the stream. A send from
// outside the stream's callbacks may take long, and is made without mutex_.
class StepCarrier final : public Carrier {
 public:
  StepCarrier(const Client& client, const LoadContext& context)
      : context_(context), places_(Slot(context.options.sessions - 1) + 1) {
    sampling_.mutable_sample()->set_seed(context.options.seed);
    StepStreamOptions options;
    options.max_in_flight = places_.size();
    options.max_in_flight_per_session = 1;
    options.on_answers = [this](absl::Span<StepAnswer> answers) {
      Take(answers);
    };
    options.on_end = [this](const absl::Status& end) { TakeEnd(end); };
    stream_ = StepStream::Open(client, options);
  }

  void Begin(const Turn& turn) override {
    size_t number = 0;
    {
      const MutexLock lock(mutex_);
      number = Enter(turn);
    }
    if (SendPrompt(*turn.session, number)) return;
    const MutexLock lock(mutex_);
    Refuse(*turn.session);
  }

  void Cancel() override { stream_->Cancel(); }
  void Close() override { stream_->Close(); }
  void WaitUntilClosed() override { stream_->Finish().IgnoreError(); }

  Tally tally() const override {
    const MutexLock lock(mutex_);
    return tally_;
  }

  Progress progress() const override {
    const MutexLock lock(mutex_);
    return {tally_.drawn_tokens, tally_.failed,
            stream_->going_away().has_value()};
  }

 private:
  // A session's, from its first request on.
  struct Place {
    std::optional<size_t> number;    // by which the stream knows it
    LoadSession* session = nullptr;  // while it has a step in flight
  };

  // Where a session of this stream has its place.
  size_t Slot(size_t session_index) const {
    return session_index / context_.options.streams;
  }

  // Enters a request; returns the number of its session.
  size_t Enter(const Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends the next piece of the session's prompt. False if the stream has
  // ended.
  bool SendPrompt(LoadSession& session, size_t number) const;
  bool Send(LoadSession& session, size_t number,
            absl::Span<const int32_t> tokens) const;

  void Take(absl::Span<StepAnswer> answers);
  void TakeStep(LoadSession& session, size_t number,
                const v1::StepResponse& step, LoadTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish(LoadSession& session, SessionFate fate, LoadTime now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The session's step never left.
  void Refuse(LoadSession& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeEnd(const absl::Status& end);

  const LoadContext& context_;
  v1::StepOutput sampling_;

  mutable Mutex mutex_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);  // by Slot
  Tally tally_ ABSL_GUARDED_BY(mutex_);

  std::unique_ptr<StepStream> stream_;  // last, since it calls the others
};

size_t StepCarrier::Enter(const Turn& turn) {
  LoadSession& session = *turn.session;
  session.Begin(turn, tally_);
  Place& place = places_[Slot(session.index())];
  place.session = &session;
  if (!place.number) {
    place.number = stream_->AddSession(session.name(), session.position());
  } else {
    // Refused by a stream that has ended, which refuses to send as well.
    stream_->PlaceSession(*place.number, session.name(), session.position())
        .IgnoreError();
  }
  return *place.number;
}

bool StepCarrier::SendPrompt(LoadSession& session, size_t number) const {
  return Send(session, number, session.TakePrompt(context_.max_step_tokens));
}

bool StepCarrier::Send(LoadSession& session, size_t number,
                       absl::Span<const int32_t> tokens) const {
  session.Sent(tokens.size());
  Step step;
  step.tokens = tokens;
  if (!session.has_prompt()) step.output = &sampling_;
  return stream_->Send(number, step, Slot(session.index())).ok();
}

void StepCarrier::Take(absl::Span<StepAnswer> answers) {
  const MutexLock lock(mutex_);
  const LoadTime now = LoadClock::now();
  for (const StepAnswer& answer : answers) {
    LoadSession& session = *places_[answer.tag].session;
    if (answer.step.ok()) {
      TakeStep(session, answer.session, *answer.step, now);
      continue;
    }
    const SessionFate fate = session.Fail(
        answer.step.status(), /*all_or_nothing=*/true, context_.window, tally_);
    Finish(session, fate, now);
  }
}

void StepCarrier::TakeStep(LoadSession& session, size_t number,
                           const v1::StepResponse& step, LoadTime now) {
  session.Absorbed(step.position(), /*generated=*/0, tally_);
  if (context_.window.Contains(now)) {
    tally_.server_queue.Record(ToNanoseconds(step.timing().queue()));
    tally_.server_compute.Record(ToNanoseconds(step.timing().compute()));
  }
  const bool drawn = !session.has_prompt();
  if (drawn) session.Received(1, now, context_.window, tally_);
  if (drawn && session.complete()) {
    Finish(session, session.Complete(now, context_.window, tally_), now);
    return;
  }
  if (context_.pool.cut()) {
    session.Cut(now, context_.window, tally_);
    Finish(session, SessionFate::kGoesOn, now);
    return;
  }
  const int32_t token = step.sampled_token();
  const bool sent =
      drawn ? Send(session, number, {&token, 1}) : SendPrompt(session, number);
  if (!sent) Refuse(session);
}

void StepCarrier::Finish(LoadSession& session, SessionFate fate, LoadTime now) {
  places_[Slot(session.index())].session = nullptr;
  const auto next = context_.pool.Finish(session, fate, now);
  if (!next) return;
  const size_t number = Enter(*next);
  if (!SendPrompt(*next->session, number)) Refuse(*next->session);
}

void StepCarrier::Refuse(LoadSession& session) {
  const SessionFate fate =
      session.Fail(absl::UnavailableError("the stream has ended"),
                   /*all_or_nothing=*/true, context_.window, tally_);
  Finish(session, fate, LoadClock::now());
}

// Requests in flight are unanswered.
void StepCarrier::TakeEnd(const absl::Status& end) {
  const MutexLock lock(mutex_);
  const LoadTime now = LoadClock::now();
  for (const Place& place : places_) {
    if (place.session == nullptr) continue;
    LoadSession& session = *place.session;
    if (context_.pool.cut()) {
      session.CutShort(now, context_.window, tally_);
      Finish(session, SessionFate::kGoesOn, now);
      continue;
    }
    const SessionFate fate =
        session.Fail(absl::UnavailableError("the stream has ended"),
                     /*all_or_nothing=*/false, context_.window, tally_);
    Finish(session, fate, now);
  }
  // What the connection has to say was counted with every request that it left
  // unanswered.
  if (GetErrorDetails(end)) {
    tally_.CountError(end);
  } else if (absl::IsCancelled(end)) {
    ++tally_.given_up;
  }
}

}  // namespace

std::unique_ptr<Carrier> MakeStepCarrier(const Client& client,
                                         const LoadContext& context) {
  return std::make_unique<StepCarrier>(client, context);
}

}  // namespace steadystate::client
