#include "client/load/generate_carrier.h"

#include <optional>

#include "client/clock.h"
#include "client/error.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

namespace steadystate::client {

// The call that a session has under way. gRPC calls its methods one at a time;
// none comes between OnDone and the next Start.
class GenerateCarrier::Call final
    : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  Call(GenerateCarrier& carrier, LoadSession& session)
      : carrier_(carrier), session_(session) {}

  void Start() {
    const LoadOptions& options = carrier_.context_.options;
    request_.set_session(session_.name());
    request_.set_expected_position(session_.position());
    request_.mutable_sampling()->set_seed(options.seed);
    request_.set_max_tokens(options.generate_tokens);
    request_.set_ignore_eos(true);
    auto& ids = *request_.mutable_tokens()->mutable_ids();
    ids.Clear();
    for (uint64_t i = 0; i < options.prompt_tokens; ++i) {
      ids.Add(session_.DrawPromptToken());
    }
    grpc::ClientContext* context = nullptr;
    {
      const MutexLock lock(carrier_.mutex_);
      context = &context_.emplace();
      const absl::Duration timeout = carrier_.context_.call_timeout;
      if (timeout != absl::InfiniteDuration()) {
        context->set_deadline(DeadlineIn(timeout));
      }
      if (cancelled_) context->TryCancel();
    }
    carrier_.stub_.async()->Generate(context, &request_, this);
    StartRead(&response_);
    StartCall();
  }

  // Needs the carrier's mutex.
  void Cancel() {
    carrier_.mutex_.AssertHeld();
    cancelled_ = true;
    if (context_) context_->TryCancel();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      const MutexLock lock(carrier_.mutex_);
      carrier_.Take(session_, response_, LoadClock::now());
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    std::optional<Turn> next;
    {
      const MutexLock lock(carrier_.mutex_);
      const LoadTime now = LoadClock::now();
      const SessionFate fate = carrier_.End(session_, ToStatus(status), now);
      next = carrier_.context_.pool.Finish(session_, fate, now);
      if (next) {
        next->session->Begin(next->intended, carrier_.tally_);
        session_.Sent(carrier_.context_.options.prompt_tokens);
      } else {
        --carrier_.running_;
        carrier_.quiet_.SignalAll();
      }
    }
    if (next) Start();
  }

 private:
  GenerateCarrier& carrier_;
  LoadSession& session_;
  v1::GenerateRequest request_;
  v1::GenerateResponse response_;
  std::optional<grpc::ClientContext> context_ ABSL_GUARDED_BY(carrier_.mutex_);
  bool cancelled_ ABSL_GUARDED_BY(carrier_.mutex_) = false;
};

GenerateCarrier::GenerateCarrier(const LoadContext& context,
                                 v1::GenerationService::Stub& stub)
    : context_(context), stub_(stub), calls_(context.options.sessions) {}

GenerateCarrier::~GenerateCarrier() = default;

void GenerateCarrier::Begin(const Turn& turn) {
  Call* call = nullptr;
  {
    const MutexLock lock(mutex_);
    auto& place = calls_[turn.session->index()];
    if (place == nullptr) place = std::make_unique<Call>(*this, *turn.session);
    call = place.get();
    turn.session->Begin(turn.intended, tally_);
    turn.session->Sent(context_.options.prompt_tokens);
    ++running_;
  }
  call->Start();
}

void GenerateCarrier::Take(LoadSession& session,
                           const v1::GenerateResponse& message, LoadTime now) {
  const auto tokens = static_cast<uint64_t>(message.tokens_size());
  if (tokens > 0) {
    session.Absorbed(message.position(), tokens, tally_);
    session.Received(tokens, now, context_.window, tally_);
  }
  if (message.has_usage() && context_.window.Contains(now)) {
    tally_.server_queue.Record(ToNanoseconds(message.usage().queue()));
  }
}

SessionFate GenerateCarrier::End(LoadSession& session,
                                 const absl::Status& status, LoadTime now) {
  if (status.ok()) return session.Complete(now, context_.window, tally_);
  if (absl::IsCancelled(status) && context_.pool.cut()) {
    session.CutShort(now, context_.window, tally_);
    return SessionFate::kGoesOn;
  }
  return session.Fail(status, /*all_or_nothing=*/false, context_.window,
                      tally_);
}

void GenerateCarrier::Cancel() {
  const MutexLock lock(mutex_);
  for (const auto& call : calls_) {
    if (call != nullptr) call->Cancel();
  }
}

void GenerateCarrier::WaitUntilClosed() {
  const MutexLock lock(mutex_);
  while (running_ > 0) quiet_.Wait(mutex_);
}

Tally GenerateCarrier::tally() const {
  const MutexLock lock(mutex_);
  return tally_;
}

Carrier::Progress GenerateCarrier::progress() const {
  const MutexLock lock(mutex_);
  return {tally_.drawn_tokens, tally_.failed};
}

}  // namespace steadystate::client
