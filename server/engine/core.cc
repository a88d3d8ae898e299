#include "server/engine/core.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

absl::Status DrainingError() {
  return MakeError(ErrorReason::kDraining,
                   "the server is shutting down: use another one");
}

}  // namespace

Engine::Core::Core(const EngineOptions& options,
                   std::shared_ptr<const Model> model, const Clock& clock,
                   Metrics& metrics)
    : options_(options),
      model_(std::move(model)),
      clock_(clock),
      metrics_(metrics),
      layout_(model_->state_layout(), model_->description().hidden_size),
      steps_(model_->description().hidden_size, options.prefill_chunk_rows),
      heartbeat_nanoseconds_(
          absl::ToInt64Nanoseconds(clock.Now().since_zero())),
      backlog_({.max_queued_per_session = options.max_queued_per_session,
                .max_queued = options.max_queued_requests,
                .max_input_bytes = options.max_queued_input_bytes}),
      scheduler_(options.max_batch_rows),
      keeper_({.memory_bytes = options.state_memory_bytes,
               .default_ttl = options.session_ttl,
               .max_expired_remembered = options.max_expired_remembered},
              layout_, clock, metrics,
              [this](Session& session, const absl::Status& status) {
                Returned(session, status);
              }) {
  metrics_.SetComputeThreads(options.threads);
  thread_ = std::thread([this] { Loop(); });
}

Engine::Core::~Core() {
  {
    MutexLock lock(mutex_);
    draining_ = true;
    stopping_ = true;
    WakeCompute();
  }
  thread_.join();
}

absl::StatusOr<SessionInfo> Engine::Core::CreateSession(
    const SessionOptions& options) {
  {
    const MutexLock lock(mutex_);
    STEADYSTATE_RETURN_IF_ERROR(CountRefusal(CheckOpen()));
  }
  absl::StatusOr<SessionInfo> created = keeper_.Create(options);
  if (!created.ok()) return CountRefusal(created.status());
  return created;
}

absl::Status Engine::Core::DeleteSession(const SessionKey& key) {
  const Moment now = clock_.Read();
  const MutexLock lock(mutex_);
  const MutexLock sessions(keeper_.mutex());
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const busy,
                               keeper_.Delete(key, now));
  if (busy == nullptr) return absl::OkStatus();
  for (const auto& request : busy->lane->requests) {
    orphaned_.push_back(request->id);
  }
  WakeCompute();
  return absl::OkStatus();
}

absl::Status Engine::Core::CheckOpen() {
  return draining_ ? DrainingError() : absl::OkStatus();
}

// Counts a refusal that is about the server's load.
absl::Status Engine::Core::CountRefusal(absl::Status status) {
  if (status.ok()) return status;
  const std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) return status;
  switch (details->reason) {
    case ErrorReason::kDraining:
      metrics_.Rejected(Rejection::kDraining);
      break;
    case ErrorReason::kQueueFull:
      metrics_.Rejected(Rejection::kQueueFull);
      break;
    case ErrorReason::kStateBudgetExhausted:
      metrics_.Rejected(Rejection::kStateBudget);
      break;
    default:
      break;
  }
  return status;
}

RequestId Engine::Core::Submit(const RequestBase& base,
                               std::unique_ptr<Task> task,
                               bool on_fresh_state) {
  const SteadyTime now = clock_.Now();
  absl::Status refusal;
  const RequestId id = NewRequestId();
  Submission submission = {.base = base,
                           .request = std::make_unique<Request>(),
                           .on_fresh_state = on_fresh_state,
                           .refusal = refusal};
  submission.request->id = id;
  submission.request->task = std::move(task);
  Submit({&submission, 1});
  if (!refusal.ok()) {
    submission.request->task->Finish(refusal, {.submitted = now});
  }
  return id;
}

void Engine::Core::Submit(std::span<Submission> submissions) {
  const Moment now = clock_.Read();
  bool wake = false;
  {
    const MutexLock lock(mutex_);
    const MutexLock sessions(keeper_.mutex());
    for (const Submission& submission : submissions) {
      keeper_.WillFind(submission.base.key());
    }
    for (Submission& submission : submissions) {
      submission.refusal = CountRefusal(Accept(submission, now));
    }
    metrics_.SetRequests(backlog_.begun(), backlog_.waiting());
    wake = wake_at_ > 0 && starting_.size() >= wake_at_;
    if (wake) wake_at_ = 0;
  }
  // Outside the lock, for which it would only wait.
  if (wake) work_.SignalOne();
}

// Takes the request only if it succeeds.
absl::Status Engine::Core::Accept(Submission& submission, const Moment& now) {
  const RequestBase& base = submission.base;
  const bool on_fresh_state = submission.on_fresh_state;
  STEADYSTATE_RETURN_IF_ERROR(CheckOpen());
  if (base.deadline <= now.steady) {
    metrics_.Cancelled(CancelStage::kQueued, CancelSource::kDeadline);
    return MakeError(ErrorReason::kDeadlineExceeded,
                     "the deadline had passed when the request arrived; the "
                     "session is unchanged");
  }
  Session* session = nullptr;
  if (!on_fresh_state) {
    STEADYSTATE_ASSIGN_OR_RETURN(session, keeper_.Find(base.key(), now));
  }
  STEADYSTATE_RETURN_IF_ERROR(
      backlog_.Check(session, base.client, base.writer,
                     submission.request->task->input_bytes()));
  if (on_fresh_state) {
    STEADYSTATE_ASSIGN_OR_RETURN(session, keeper_.CreateUnlisted(now));
  }
  submission.request->client = base.client;
  submission.request->expected_position = base.expected_position;
  submission.request->deadline = base.deadline;
  submission.request->times.submitted = now.steady;
  const Request& request =
      backlog_.Add(*session, base.writer, std::move(submission.request));
  ++unanswered_;
  if (request.lane->requests.size() == 1) {
    if (!on_fresh_state) keeper_.Use(*session);
    starting_.push_back(request.id);
    noted_ = true;
  }
  return absl::OkStatus();
}

void Engine::Core::Cancel(RequestId id) {
  MutexLock lock(mutex_);
  Request* const request = backlog_.Find(id);
  if (request == nullptr || request->cancel_requested) return;
  request->cancel_requested = true;
  cancelled_.push_back(id);
  WakeCompute();
}

void Engine::Core::Wake(RequestId id) {
  MutexLock lock(mutex_);
  Request* const request = backlog_.Find(id);
  if (request == nullptr || request->wake_requested) return;
  request->wake_requested = true;
  woken_.push_back(id);
  WakeCompute();
}

void Engine::Core::BeginDrain() {
  MutexLock lock(mutex_);
  draining_ = true;
}

void Engine::Core::AbortRequests() {
  MutexLock lock(mutex_);
  draining_ = true;
  aborting_ = true;
  WakeCompute();
}

bool Engine::Core::WaitIdle(absl::Duration timeout) {
  // Bounded, so that adding it to the time cannot overflow.
  constexpr absl::Duration kForever = absl::Hours(24 * 365);
  const auto deadline = std::chrono::steady_clock::now() +
                        absl::ToChronoNanoseconds(std::min(timeout, kForever));
  MutexLock lock(mutex_);
  while (unanswered_ > 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    idle_.WaitFor(mutex_, left);
  }
  return true;
}

void Engine::Core::Returned(const Session& session,
                            const absl::Status& status) {
  const MutexLock lock(mutex_);
  returned_.push_back({session.lane->requests.front()->id, status});
  WakeCompute();
}

// Costs nothing while the compute thread is busy: it looks before it waits.
void Engine::Core::WakeCompute() {
  noted_ = true;
  if (std::exchange(wake_at_, 0) > 0) work_.SignalOne();
}

}  // namespace steadystate
