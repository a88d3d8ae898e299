#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/load/carrier.h"
#include "client/mutex.h"

namespace steadystate::client {
namespace {

// Lock order: mutex_, then that of the pool.
class GenerateCarrier final : public Carrier {
 public:
  GenerateCarrier(const Client& client, const LoadContext& context)
      : client_(client),
        context_(context),
        calls_(Slot(context.options.sessions - 1) + 1) {}

  void Begin(const Turn& turn) override {
    GenerateCall* call = nullptr;
    {
      const MutexLock lock(mutex_);
      Enter(turn);
      ++running_;
      call = &CallOf(*turn.session);
    }
    Start(*turn.session, *call);
  }

  void Cancel() override { canceller_.Cancel(); }
  void Close() override {}

  void WaitUntilClosed() override {
    const MutexLock lock(mutex_);
    while (running_ > 0) quiet_.Wait(mutex_);
  }

  Tally tally() const override {
    const MutexLock lock(mutex_);
    return tally_;
  }

  Progress progress() const override {
    const MutexLock lock(mutex_);
    return {tally_.drawn_tokens, tally_.failed, going_away_};
  }

 private:
  void Enter(const Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    turn.session->Begin(turn, tally_);
    turn.session->Sent(turn.session->shape().prompt_tokens);
  }

  // Where a session of this connection has its place.
  size_t Slot(size_t session_index) const {
    return session_index / context_.options.connections;
  }

  // The session's calls, one after the other.
  GenerateCall& CallOf(LoadSession& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(LoadSession& session, GenerateCall& call);
  void Take(LoadSession& session, const v1::GenerateResponse& message);
  void TakeEnd(LoadSession& session, const absl::Status& end);
  SessionFate FateAfter(LoadSession& session, const absl::Status& end,
                        LoadTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Client& client_;
  const LoadContext& context_;
  Canceller canceller_;

  mutable Mutex mutex_;
  CondVar quiet_;
  size_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // calls
  bool going_away_ ABSL_GUARDED_BY(mutex_) = false;
  Tally tally_ ABSL_GUARDED_BY(mutex_);
  // By Slot, made on first use. Last, since they call the others.
  std::vector<std::unique_ptr<GenerateCall>> calls_ ABSL_GUARDED_BY(mutex_);
};

GenerateCall& GenerateCarrier::CallOf(LoadSession& session) {
  auto& place = calls_[Slot(session.index())];
  if (place == nullptr) {
    place = std::make_unique<GenerateCall>(
        client_,
        [this, &session](const v1::GenerateResponse& message) {
          Take(session, message);
        },
        [this, &session](const absl::Status& end) { TakeEnd(session, end); });
  }
  return *place;
}

void GenerateCarrier::Start(LoadSession& session, GenerateCall& call) {
  v1::GenerateRequest request;
  request.set_session(session.name());
  request.set_expected_position(session.position());
  request.mutable_sampling()->set_seed(context_.options.seed);
  request.set_max_tokens(session.shape().generate_tokens);
  request.set_ignore_eos(true);
  const std::vector<int32_t> prompt =
      session.TakePrompt(session.shape().prompt_tokens);
  request.mutable_tokens()->mutable_ids()->Assign(prompt.begin(), prompt.end());
  call.Start(request,
             {.timeout = context_.call_timeout, .canceller = &canceller_});
}

void GenerateCarrier::Take(LoadSession& session,
                           const v1::GenerateResponse& message) {
  const MutexLock lock(mutex_);
  const LoadTime now = LoadClock::now();
  const auto tokens = static_cast<uint64_t>(message.tokens_size());
  if (tokens > 0) {
    session.Absorbed(message.position(), tokens, tally_);
    session.Received(tokens, now, context_.window, tally_);
  }
  if (message.has_going_away()) going_away_ = true;
  if (!message.has_usage() || !context_.window.Contains(now)) return;
  const auto& usage = message.usage();
  tally_.server_queue.Record(ToNanoseconds(usage.queue()));
  if (usage.has_time_to_first_token()) {
    tally_.outside_server.Record(session.first_token_after() -
                                 ToNanoseconds(usage.time_to_first_token()));
  }
}

SessionFate GenerateCarrier::FateAfter(LoadSession& session,
                                       const absl::Status& end, LoadTime now) {
  if (end.ok()) return session.Complete(now, context_.window, tally_);
  if (absl::IsCancelled(end) && context_.pool.cut()) {
    session.CutShort(now, context_.window, tally_);
    return SessionFate::kGoesOn;
  }
  return session.Fail(end, /*all_or_nothing=*/false, context_.window, tally_);
}

void GenerateCarrier::TakeEnd(LoadSession& session, const absl::Status& end) {
  GenerateCall* call = nullptr;
  {
    const MutexLock lock(mutex_);
    const LoadTime now = LoadClock::now();
    const SessionFate fate = FateAfter(session, end, now);
    const auto next = context_.pool.Finish(session, fate, now);
    if (!next) {
      --running_;
      quiet_.SignalAll();
      return;
    }
    Enter(*next);
    call = &CallOf(session);
  }
  Start(session, *call);
}

}  // namespace

std::unique_ptr<Carrier> MakeGenerateCarrier(const Client& client,
                                             const LoadContext& context) {
  return std::make_unique<GenerateCarrier>(client, context);
}

}  // namespace steadystate::client
