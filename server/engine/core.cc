#include "server/engine/core.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// State memory becomes free when a session expires or is deleted: when the next
// one expires is the best guess, within these bounds.
constexpr absl::Duration kMinStateRetry = absl::Seconds(1);
constexpr absl::Duration kMaxStateRetry = absl::Seconds(60);

constexpr size_t kAllExpired = std::numeric_limits<size_t>::max();

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
      pool_(layout_.slot(), layout_.charge_bytes(), options.state_memory_bytes),
      steps_(model_->description().hidden_size, options.prefill_chunk_rows),
      heartbeat_nanoseconds_(
          absl::ToInt64Nanoseconds(clock.Now().since_zero())),
      table_(layout_, pool_, options.session_ttl,
             options.max_expired_remembered),
      backlog_({.max_queued_per_session = options.max_queued_per_session,
                .max_queued = options.max_queued_requests,
                .max_input_bytes = options.max_queued_input_bytes}),
      scheduler_(options.max_batch_rows) {
  metrics_.SetComputeThreads(options.threads);
  {
    MutexLock lock(mutex_);
    UpdateGauges();
  }
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
  MutexLock lock(mutex_);
  const SteadyTime now = clock_.Now();
  for (const Session* session : table_.Sessions()) {
    metrics_.SessionEnded(SessionEnd::kShutdown, now - session->created.steady,
                          session->position);
  }
}

absl::StatusOr<SessionInfo> Engine::Core::CreateSession(
    const SessionOptions& options) {
  const Moment now = clock_.Read();
  FreeExpired(now, kAllExpired);
  MutexLock lock(mutex_);
  AwaitClearing();
  STEADYSTATE_RETURN_IF_ERROR(CountRefusal(CheckOpen(), now.steady));
  absl::StatusOr<Session*> session = table_.Create(options, now);
  if (!session.ok()) return CountRefusal(session.status(), now.steady);
  metrics_.SessionCreated();
  UpdateGauges();
  return table_.Describe(**session, now);
}

absl::StatusOr<SessionInfo> Engine::Core::GetSession(absl::string_view id) {
  const Moment now = clock_.Read();
  FreeExpired(now, kAllExpired);
  MutexLock lock(mutex_);
  STEADYSTATE_ASSIGN_OR_RETURN(const Session* const session,
                               table_.Find(id, now));
  return table_.Describe(*session, now);
}

absl::StatusOr<SessionPage> Engine::Core::ListSessions(
    size_t page_size, absl::string_view page_token) {
  const Moment now = clock_.Read();
  FreeExpired(now, kAllExpired);
  MutexLock lock(mutex_);
  return table_.List(page_size, page_token, now);
}

absl::Status Engine::Core::DeleteSession(absl::string_view id) {
  const Moment now = clock_.Read();
  FreeExpired(now, kAllExpired);
  STEADYSTATE_ASSIGN_OR_RETURN(std::unique_ptr<Session> ended,
                               TakeDeleted(id, now));
  if (ended == nullptr) return absl::OkStatus();
  ended.reset();
  MutexLock lock(mutex_);
  UpdateGauges();
  return absl::OkStatus();
}

// The session, to be destroyed outside the lock; null if the compute thread
// does that, because it is busy.
absl::StatusOr<std::unique_ptr<Session>> Engine::Core::TakeDeleted(
    absl::string_view id, const Moment& now) {
  MutexLock lock(mutex_);
  STEADYSTATE_ASSIGN_OR_RETURN(Session* const session, table_.Find(id, now));
  metrics_.SessionEnded(SessionEnd::kDeleted,
                        now.steady - session->created.steady,
                        session->position);
  Lane* const lane = session->lane;
  if (lane == nullptr) return table_.Remove(*session);
  lane->owned = table_.Remove(*session);
  for (const auto& request : lane->requests) {
    orphaned_.push_back(request->id);
  }
  WakeCompute();
  UpdateGauges();
  return std::unique_ptr<Session>();
}

// Takes the lock for itself, so that memory is cleared outside it.
void Engine::Core::FreeExpired(const Moment& now, size_t max) {
  std::vector<std::unique_ptr<Session>> expired;
  {
    MutexLock lock(mutex_);
    expired = table_.TakeExpired(now, max);
    clearing_ += expired.size();
  }
  if (expired.empty()) return;
  const size_t count = expired.size();
  for (const auto& session : expired) {
    metrics_.SessionEnded(SessionEnd::kExpired,
                          session->expire_time() - session->created.steady,
                          session->position);
  }
  expired.clear();
  MutexLock lock(mutex_);
  clearing_ -= count;
  cleared_.SignalAll();
  UpdateGauges();
}

// Nobody is refused for want of memory that is just being cleared.
void Engine::Core::AwaitClearing() {
  while (clearing_ > 0 &&
         pool_.used_bytes() + pool_.charge_bytes() > pool_.budget_bytes()) {
    cleared_.Wait(mutex_);
  }
}

absl::Status Engine::Core::CheckOpen() {
  return draining_ ? DrainingError() : absl::OkStatus();
}

// Counts a refusal that is about the server's load; adds when to try again.
absl::Status Engine::Core::CountRefusal(absl::Status status, SteadyTime now) {
  if (status.ok()) return status;
  const std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) return status;
  switch (details->reason) {
    case ErrorReason::kDraining:
      metrics_.Rejected(Rejection::kDraining);
      return status;
    case ErrorReason::kQueueFull:
      metrics_.Rejected(Rejection::kQueueFull);
      return status;
    case ErrorReason::kStateBudgetExhausted:
      metrics_.Rejected(Rejection::kStateBudget);
      return MakeError(details->reason, status.message(), details->metadata,
                       std::clamp(table_.NextExpiry() - now, kMinStateRetry,
                                  kMaxStateRetry));
    default:
      return status;
  }
}

RequestId Engine::Core::Submit(const RequestBase& base,
                               std::unique_ptr<Task> task,
                               bool on_fresh_state) {
  const Moment now = clock_.Read();
  if (on_fresh_state) FreeExpired(now, kAllExpired);
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
    submission.request->task->Finish(refusal, {.submitted = now.steady});
  }
  return id;
}

void Engine::Core::Submit(std::span<Submission> submissions) {
  const Moment now = clock_.Read();
  bool wake = false;
  {
    MutexLock lock(mutex_);
    for (const Submission& submission : submissions) {
      table_.WillFind(submission.base.session);
    }
    for (Submission& submission : submissions) {
      submission.refusal = CountRefusal(Accept(submission, now), now.steady);
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
  // First, because it lets go of the lock: what is checked below must hold.
  if (on_fresh_state) AwaitClearing();
  STEADYSTATE_RETURN_IF_ERROR(CheckOpen());
  if (base.deadline <= now.steady) {
    metrics_.Cancelled(CancelStage::kQueued, CancelSource::kDeadline);
    return MakeError(ErrorReason::kDeadlineExceeded,
                     "the deadline had passed when the request arrived; the "
                     "session is unchanged");
  }
  Session* session = nullptr;
  if (!on_fresh_state) {
    STEADYSTATE_ASSIGN_OR_RETURN(session, table_.Find(base.session, now));
  }
  STEADYSTATE_RETURN_IF_ERROR(
      backlog_.Check(session, base.client, base.writer,
                     submission.request->task->input_bytes()));
  std::unique_ptr<Session> fresh;
  if (on_fresh_state) {
    STEADYSTATE_ASSIGN_OR_RETURN(StateLease lease, pool_.Allocate());
    fresh = std::make_unique<Session>(layout_, std::move(lease));
    session = fresh.get();
  }
  submission.request->client = base.client;
  submission.request->expected_position = base.expected_position;
  submission.request->deadline = base.deadline;
  submission.request->times.submitted = now.steady;
  const Request& request =
      backlog_.Add(*session, base.writer, std::move(submission.request));
  ++unanswered_;
  if (request.lane->requests.size() == 1) {
    if (on_fresh_state) {
      session->lane->owned = std::move(fresh);
    } else {
      table_.SetActive(*session);
    }
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

void Engine::Core::UpdateGauges() {
  metrics_.SetSessions(table_.active(), table_.size() - table_.active());
  metrics_.SetStateBytes(pool_.used_bytes(), pool_.budget_bytes(),
                         pool_.charge_bytes());
  metrics_.SetRequests(backlog_.begun(), backlog_.waiting());
}

// Costs nothing while the compute thread is busy: it looks before it waits.
void Engine::Core::WakeCompute() {
  noted_ = true;
  if (std::exchange(wake_at_, 0) > 0) work_.SignalOne();
}

}  // namespace steadystate
