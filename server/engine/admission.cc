#include "server/engine/admission.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::Status DrainingError() {
  return MakeError(ErrorReason::kDraining,
                   "the server is shutting down; retry with another one");
}

absl::StatusOr<SessionInfo> Admission::CreateSession(
    const SessionOptions& options, SessionKeeper::Created* created) {
  {
    const MutexLock lock(desk_.mutex);
    STEADYSTATE_RETURN_IF_ERROR(CountRefusal(CheckOpen()));
  }
  absl::StatusOr<SessionInfo> info = keeper_.Create(options, created);
  if (!info.ok()) return CountRefusal(info.status());
  return info;
}

absl::Status Admission::DeleteSession(const SessionKey& key,
                                      Shelf::Removed removed) {
  STEADYSTATE_RETURN_IF_ERROR(TakeOut(key, removed));
  // The store did not have it.
  if (removed) removed(absl::OkStatus());
  return absl::OkStatus();
}

absl::Status Admission::TakeOut(const SessionKey& key,
                                Shelf::Removed& removed) {
  const Moment now = clock_.Read();
  const MutexLock lock(desk_.mutex);
  const MutexLock sessions(keeper_.mutex());
  const absl::StatusOr<Session*> found = keeper_.Find(key, now);
  // Whoever asks again is told when it is gone.
  if (!found.ok() && removed && keeper_.JoinDeletion(key, removed)) {
    return absl::OkStatus();
  }
  STEADYSTATE_ASSIGN_OR_RETURN(Session* const session, found);
  if (keeper_.Delete(*session, now, removed)) desk_.Orphan(*session);
  return absl::OkStatus();
}

absl::Status Admission::HibernateSession(const SessionKey& key,
                                         Shelf::Hibernated hibernated) {
  const MutexLock lock(desk_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(CountRefusal(CheckOpen()));
  return keeper_.Hibernate(key, std::move(hibernated));
}

void Admission::EndWriter(WriterId writer) {
  const MutexLock lock(desk_.mutex);
  desk_.ended_writers.push_back(writer);
  desk_.WakeCompute();
}

void Admission::Submit(std::span<Entry> entries) {
  const Moment now = clock_.Read();
  bool wake = false;
  {
    const MutexLock lock(desk_.mutex);
    const MutexLock sessions(keeper_.mutex());
    // One alone would only be looked for twice.
    for (const Entry& entry :
         entries.subspan(entries.size() > 1 ? 0 : entries.size())) {
      keeper_.WillFind(entry.request->task->base().key());
    }
    for (Entry& entry : entries) {
      entry.refusal = CountRefusal(Accept(entry, now));
    }
    metrics_.SetRequests(desk_.backlog.begun(), desk_.backlog.waiting());
    wake = desk_.wake_at > 0 && desk_.starting.size() >= desk_.wake_at;
    if (wake) desk_.wake_at = 0;
  }
  // Outside the lock, for which it would only wait.
  if (wake) desk_.work.SignalOne();
}

absl::StatusOr<Session*> Admission::FindFor(const RequestBase& request,
                                            const Moment& now) {
  if (request.ephemeral) {
    return keeper_.FindEphemeral(request.key(), request.writer, now);
  }
  absl::StatusOr<Session*> found = keeper_.Find(request.key(), now);
  if (request.starts && absl::IsNotFound(found.status())) return nullptr;
  return found;
}

absl::StatusOr<Session*> Admission::MakeFor(const RequestBase& request,
                                            const Moment& now) {
  if (request.ephemeral) {
    return keeper_.CreateEphemeral(request.key(), request.writer, now);
  }
  SessionOptions options;
  options.owner = request.owner;
  options.id = request.session;
  return keeper_.CreateNow(options, now);
}

// Takes the request only if it succeeds.
absl::Status Admission::Accept(Entry& entry, const Moment& now) {
  const Task& task = *entry.request->task;
  const RequestBase& base = task.base();
  STEADYSTATE_RETURN_IF_ERROR(CheckOpen());
  if (base.deadline <= now.steady) {
    metrics_.Cancelled(CancelStage::kQueued, CancelSource::kDeadline);
    return MakeError(ErrorReason::kDeadlineExceeded,
                     "the deadline had passed when the request arrived; the "
                     "session is unchanged");
  }
  const bool on_fresh_state = task.OnFreshState();
  Session* session = nullptr;
  if (!on_fresh_state) {
    STEADYSTATE_ASSIGN_OR_RETURN(session, FindFor(base, now));
  }
  if (session != nullptr) {
    STEADYSTATE_RETURN_IF_ERROR(Backlog::CheckRepeat(*session, task));
  }
  const bool behind_others =
      base.joins || (session != nullptr && Backlog::MayRepeat(*session, base));
  STEADYSTATE_RETURN_IF_ERROR(desk_.backlog.Check(
      session, base.client, base.writer, task.input_bytes(), behind_others));
  if (base.starts && session != nullptr && session->stream != 0 &&
      !session->active) {
    // What begins is no stream's, and is not to end with one.
    Shelf::Removed nobody;
    keeper_.Delete(*session, now, nobody);
    session = nullptr;
  }
  if (on_fresh_state) {
    STEADYSTATE_ASSIGN_OR_RETURN(session,
                                 keeper_.CreateUnlisted(now, base.context_cap));
    session->owner = base.owner;
  } else if (session == nullptr) {
    STEADYSTATE_ASSIGN_OR_RETURN(session, MakeFor(base, now));
    entry.request->made_session = true;
  }
  entry.request->expected_position = base.expected_position;
  entry.request->deadline = std::min(base.deadline, now.steady + base.timeout);
  entry.request->times.submitted = now.steady;
  const Request& request = desk_.backlog.Add(*session, base.client, base.writer,
                                             std::move(entry.request));
  entry.id = request.id;
  ++desk_.unanswered;
  if (request.lane->requests.size() == 1) {
    if (!on_fresh_state) keeper_.Use(*session, now);
    desk_.starting.push_back(request.id);
    desk_.noted = true;
  } else if (base.joins) {
    desk_.joining.push_back(request.id);
    desk_.WakeCompute();
  } else {
    TakeUpFor(request);
  }
  return absl::OkStatus();
}

// Who sends a generation again hears nothing of the one that runs, which may
// have lost its client unnoticed, and need not end by itself: it makes way
// between two tokens.
void Admission::TakeUpFor(const Request& repeat) {
  Request& first = *repeat.lane->requests.front();
  const RequestBase& base = repeat.task->base();
  const RequestBase& running = first.task->base();
  const bool repeats = base.keyed() && base.writer != running.writer &&
                       base.request_id == running.request_id &&
                       base.expected_position == running.expected_position &&
                       repeat.task->digest() == first.task->digest();
  if (!repeats || !first.begun || first.cancel_requested ||
      !first.task->CanBeTakenUp()) {
    return;
  }
  first.cancel_requested = true;
  desk_.cancelled.push_back(first.id);
  desk_.WakeCompute();
}

absl::Status Admission::CheckOpen() {
  return desk_.draining ? DrainingError() : absl::OkStatus();
}

// Counts a refusal that is about the server's load.
absl::Status Admission::CountRefusal(absl::Status status) {
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

void Admission::Cancel(RequestId id) {
  MutexLock lock(desk_.mutex);
  Request* const request = desk_.backlog.Find(id);
  if (request == nullptr || request->cancel_requested) return;
  request->cancel_requested = true;
  desk_.cancelled.push_back(id);
  desk_.WakeCompute();
}

void Admission::Wake(RequestId id) {
  MutexLock lock(desk_.mutex);
  Request* const request = desk_.backlog.Find(id);
  if (request == nullptr || request->wake_requested) return;
  request->wake_requested = true;
  desk_.woken.push_back(id);
  desk_.WakeCompute();
}

void Admission::BeginDrain() {
  {
    const MutexLock lock(desk_.mutex);
    desk_.draining = true;
  }
  // Whatever lacks storing is stored at the end, in one sweep.
  keeper_.GiveUpHibernations(DrainingError());
}

void Admission::AbortRequests() {
  MutexLock lock(desk_.mutex);
  desk_.draining = true;
  desk_.aborting = true;
  desk_.WakeCompute();
}

bool Admission::WaitIdle(absl::Duration timeout) {
  // Bounded, so that adding it to the time cannot overflow.
  constexpr absl::Duration kForever = absl::Hours(24 * 365);
  const auto deadline = std::chrono::steady_clock::now() +
                        absl::ToChronoNanoseconds(std::min(timeout, kForever));
  MutexLock lock(desk_.mutex);
  while (desk_.unanswered > 0) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds::zero()) return false;
    desk_.idle.WaitFor(desk_.mutex, left);
  }
  return true;
}

}  // namespace steadystate
