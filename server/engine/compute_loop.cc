// The compute thread: takes up what callers noted, runs a batch of those that
// decode, then some layers of a batch of prompts; commits what is complete and
// answers; again. Each step that needs the lock takes it once.
#include <pthread.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/engine/core.h"

namespace steadystate {
namespace {

// How old the heartbeat of a healthy idle engine may become.
constexpr absl::Duration kMaxWait = absl::Seconds(1);

absl::Status PositionMismatch(const Request& request, uint64_t position) {
  return MakeError(
      ErrorReason::kPositionMismatch,
      absl::StrCat("the request expects position ", *request.expected_position,
                   ", the session is at ", position,
                   ": nothing was absorbed; continue from there"),
      {{"position", absl::StrCat(position)},
       {"expected_position", absl::StrCat(*request.expected_position)}});
}

absl::Status NotFinite(const Session& session) {
  if (session.id.empty()) {
    return MakeError(ErrorReason::kInternal,
                     "the model's output for these inputs is not finite");
  }
  const uint64_t position = session.state.position();
  return MakeError(
      ErrorReason::kInternal,
      absl::StrCat("the model's output at position ", position,
                   " is not finite: the session's state cannot be trusted any "
                   "more; delete it"),
      {{"position", absl::StrCat(position)}});
}

// A part of a bidirectional pass is work like a prompt's, however short.
BatchPhase PhaseOf(const Piece& piece) {
  return piece.rows > 1 || piece.part.has_value() ? BatchPhase::kPrefill
                                                  : BatchPhase::kDecode;
}

absl::Status Unfinished(ErrorReason reason, absl::string_view what,
                        const Request& request) {
  return MakeError(
      reason,
      absl::StrCat(what, request.begun ? ": what was answered before stays"
                                       : ": the session is unchanged"));
}

// A session of the request's own has no position that anybody could use.
absl::Status CutByDrain(const Session& session) {
  constexpr absl::string_view kCut =
      "the server was shut down before the request was finished";
  if (session.id.empty()) {
    return MakeError(ErrorReason::kDraining,
                     absl::StrCat(kCut, ": use another one"));
  }
  const uint64_t position = session.state.position();
  return MakeError(ErrorReason::kDraining,
                   absl::StrCat(kCut, ", with its session at position ",
                                position, ": use another one"),
                   {{"position", absl::StrCat(position)}});
}

// What a walk along the requests of a batch needs soon comes from memory where
// there are thousands: a request first, then what it points to.
void FetchAhead(const std::vector<Request*>& requests, size_t i) {
  constexpr size_t kAhead = 8;
  if (i + 2 * kAhead < requests.size()) {
    __builtin_prefetch(requests[i + 2 * kAhead]);
  }
  if (i + kAhead < requests.size()) {
    __builtin_prefetch(requests[i + kAhead]->task.get());
    __builtin_prefetch(requests[i + kAhead]->lane);
  }
}

}  // namespace

void Engine::Core::Loop() {
  pthread_setname_np(pthread_self(), "compute");  // for who looks from outside
  BatchRunner runner(*model_, options_.max_batch_rows, options_.threads);
  while (TakeNotes()) {
    SendAnswers();
    AskReceivers();
    RunDecode(runner);
    RunPrefill(runner);
  }
  finishing_ = true;
  RunPrefill(runner);
  EndEverything();
}

void Engine::Core::RunDecode(BatchRunner& runner) {
  if (!FormBatch(BatchPhase::kDecode, decode_)) return;
  const SteadyTime start = clock_.Now();
  const size_t wanted =
      Complete(decode_, runner.Run(decode_.items, [this] { Beat(); }));
  decode_time_ = clock_.Now() - start;
  returns_.Open(decode_time_, wanted);
}

// Some layers of the prompts' batch: to its end if nobody else wants to
// compute, else for the time that live streams can spare.
void Engine::Core::RunPrefill(BatchRunner& runner) {
  if (prefill_.items.empty()) {
    if (finishing_ || !FormBatch(BatchPhase::kPrefill, prefill_)) return;
    runner.BeginPrefill(prefill_.items);
  }
  // Twice as long as a decode batch if that is longer. Prompts shall get on,
  // too: with two thirds of the time they run at more than half of their speed,
  // since the two push each other out of the caches.
  const SteadyTime end =
      clock_.Now() + std::max(options_.prefill_slice, 2 * decode_time_);
  const std::optional<BatchTimes> times = runner.ContinuePrefill([&] {
    const SteadyTime now = Beat();
    const bool others_wait = noted_ || !continuing_.empty() ||
                             scheduler_.waiting(BatchPhase::kDecode);
    return others_wait && !finishing_ && now >= end;
  });
  if (times.has_value()) Complete(prefill_, *times);
}

// Notes that the thread moves: a batch of many layers may take long.
SteadyTime Engine::Core::Beat() {
  const SteadyTime now = clock_.Now();
  heartbeat_nanoseconds_ = absl::ToInt64Nanoseconds(now.since_zero());
  return now;
}

// Lets the sessions absorb what the batch has computed, and answers. Returns
// what ReturnWindow wants.
size_t Engine::Core::Complete(Batch& batch, const BatchTimes& times) {
  const size_t wanted = Commit(batch, times);
  for (size_t i = 0; i < batch.items.size(); ++i) {
    if (!batch.items[i].finite) continue;
    batch.items[i].task->Deliver(batch.requests[i]->times);
  }
  SendAnswers();
  batch.items.clear();
  batch.requests.clear();
  return wanted;
}

// Empties `ids`, which keeps room for more. The result is valid until the next
// call.
std::span<const RequestId> Engine::Core::Taken(std::vector<RequestId>& ids) {
  taken_.swap(ids);
  ids.clear();
  return taken_;
}

bool Engine::Core::HasWork() const {
  return stopping_ || !prefill_.items.empty() || !scheduler_.empty() ||
         !continuing_.empty() || !starting_.empty() || !cancelled_.empty() ||
         !woken_.empty() || !orphaned_.empty() || !returned_.empty() ||
         (aborting_ && backlog_.size() > elsewhere_);
}

// Until so many requests' turn has come or something else was noted. False if
// the time was up before.
bool Engine::Core::WaitFor(size_t requests, absl::Duration timeout) {
  wake_at_ = requests;
  work_.WaitFor(mutex_, absl::ToChronoNanoseconds(timeout));
  return std::exchange(wake_at_, 0) == 0;
}

// See ReturnWindow. Prompts that wait use the time better.
void Engine::Core::WaitForReturns() {
  if (stopping_ || aborting_ || !prefill_.items.empty() ||
      scheduler_.waiting(BatchPhase::kPrefill)) {
    return;
  }
  while (returns_.StaysOpen(starting_.size())) {
    if (WaitFor(returns_.wanted(), returns_.gap()) &&
        starting_.size() < returns_.wanted()) {
      return;
    }
  }
}

void Engine::Core::WaitForWork() {
  if (HasWork()) return;
  const absl::Duration wait =
      std::min(backlog_.NextDeadline() - clock_.Now(), kMaxWait);
  if (wait <= absl::ZeroDuration()) return;
  WaitFor(1, wait);
}

// Waits for something to do and sorts it into answers_ and asking_. False when
// the engine is to stop.
bool Engine::Core::TakeNotes() {
  const MutexLock lock(mutex_);
  unanswered_ -= std::exchange(answered_, 0);
  if (unanswered_ == 0) idle_.SignalAll();
  metrics_.SetRequests(backlog_.begun(), backlog_.waiting());
  WaitForReturns();
  WaitForWork();
  noted_ = false;
  if (stopping_) return false;
  now_ = clock_.Read();
  heartbeat_nanoseconds_ = absl::ToInt64Nanoseconds(now_.steady.since_zero());
  finishing_ = aborting_;
  const MutexLock sessions(keeper_.mutex());
  keeper_.UpdateGauges();
  asking_.clear();
  TakeReturned();
  if (aborting_ && prefill_.items.empty()) EndAll();
  EndEarly();
  for (const RequestId id : Taken(continuing_)) {
    if (Request* const request = backlog_.Find(id)) Ask(*request);
  }
  for (const RequestId id : Taken(woken_)) {
    Request* const request = backlog_.Find(id);
    if (request == nullptr) continue;
    request->wake_requested = false;
    if (request->stage == RequestStage::kPaused) Ask(*request);
  }
  // Grows while it is read: a refused request makes room for the next one.
  for (size_t i = 0; i < starting_.size(); ++i) {
    if (Request* const request = backlog_.Find(starting_[i])) {
      StartTurn(*request);
    }
  }
  starting_.clear();
  return true;
}

// Ends all requests, steps that have begun included, but for those that are
// with the keeper. No batch is running.
void Engine::Core::EndAll() {
  for (Request* const request : backlog_.All()) {
    if (request->stage == RequestStage::kElsewhere) continue;
    if (request->stage == RequestStage::kScheduled) {
      scheduler_.Remove(request->id);
    }
    Settle(*request, CutByDrain(*request->lane->session));
  }
}

// Ends the requests that shall not go on. Who is overdue first: a client whose
// deadline passes cancels the call as well.
void Engine::Core::EndEarly() {
  while (Request* const request = backlog_.TakeOverdue(now_.steady)) {
    End(*request, Unfinished(ErrorReason::kDeadlineExceeded,
                             "the request's deadline passed", *request));
  }
  for (const RequestId id : Taken(cancelled_)) {
    Request* const request = backlog_.Find(id);
    if (request == nullptr) continue;
    End(*request, Unfinished(ErrorReason::kCancelled,
                             "the request was cancelled", *request));
  }
  for (const RequestId id : Taken(orphaned_)) {
    Request* const request = backlog_.Find(id);
    if (request == nullptr) continue;
    const std::string& session = request->lane->session->id;
    End(*request, MakeError(ErrorReason::kSessionNotFound,
                            absl::StrCat("session '", session,
                                         "' was deleted before the request "
                                         "was finished"),
                            {{"session", session}}));
  }
}

void Engine::Core::End(Request& request, const absl::Status& status) {
  // Whoever deleted the session asks for no record of how far it came.
  const bool deleted = absl::IsNotFound(status);
  if (request.begun && request.task->AllOrNothing() && !deleted) return;
  if (request.stage == RequestStage::kRunning ||
      request.stage == RequestStage::kElsewhere) {
    // Its session is between two layers, or somebody else's.
    request.end_when_back = status;
    return;
  }
  if (!deleted) {
    metrics_.Cancelled(
        request.begun ? CancelStage::kRunning : CancelStage::kQueued,
        status.code() == absl::StatusCode::kCancelled
            ? CancelSource::kClient
            : CancelSource::kDeadline);
  }
  if (request.stage == RequestStage::kScheduled) scheduler_.Remove(request.id);
  Settle(request, status);
}

// What was with the keeper ends, or its turn comes again.
void Engine::Core::TakeReturned() {
  for (Return& returned : returned_) {
    --elsewhere_;
    Request& request = *backlog_.Find(returned.id);
    request.stage = RequestStage::kQueued;
    if (request.end_when_back.has_value()) {
      End(request, *request.end_when_back);
    } else if (!returned.status.ok() || request.task->Elsewhere()) {
      Settle(request, std::move(returned.status));
    } else {
      starting_.push_back(request.id);
    }
  }
  returned_.clear();
}

void Engine::Core::Order(Request& request, SessionKeeper::Work work) {
  request.stage = RequestStage::kElsewhere;
  ++elsewhere_;
  keeper_.Order(*request.lane->session, std::move(work));
}

// The requests before it are answered: may it begin?
void Engine::Core::StartTurn(Request& request) {
  const SessionState& state = request.lane->session->state;
  if (!state.in_memory()) {
    Order(request, nullptr);
    return;
  }
  const uint64_t position = state.position();
  if (request.expected_position.value_or(position) != position) {
    metrics_.PositionMismatch();
    Settle(request, PositionMismatch(request, position));
    return;
  }
  const absl::Status status = request.task->Begin(state);
  if (!status.ok() || request.task->done()) {
    Settle(request, status);
    return;
  }
  if (request.task->Elsewhere()) {
    Order(request, [&task = *request.task](SessionState& session) {
      return task.Work(session);
    });
    return;
  }
  Ask(request);
}

void Engine::Core::Ask(Request& request) {
  request.stage = RequestStage::kAsking;
  asking_.push_back(&request);
}

// Takes a request out of the backlog; SendAnswers answers it.
void Engine::Core::Settle(Request& request, absl::Status status) {
  Lane& lane = *request.lane;
  const bool had_its_turn = lane.requests.front().get() == &request;
  answers_.push_back({backlog_.Remove(request), std::move(status)});
  if (!lane.requests.empty()) {
    if (had_its_turn) starting_.push_back(lane.requests.front()->id);
    return;
  }
  Session& session = *lane.session;
  backlog_.CloseLane(lane);
  keeper_.LetGo(session, now_);
}

void Engine::Core::AskReceivers() {
  for (Request* const request : asking_) {
    if (request->task->Ready()) {
      request->stage = RequestStage::kScheduled;
      const Piece piece = request->task->Next();
      // Work without rows, on pending logits, counts as one.
      scheduler_.Add({.id = request->id,
                      .client = request->client,
                      .rows = std::max<size_t>(piece.rows, 1)},
                     PhaseOf(piece));
    } else {
      request->stage = RequestStage::kPaused;
    }
  }
}

// False if nothing is ready.
bool Engine::Core::FormBatch(BatchPhase phase, Batch& batch) {
  scheduler_.TakeBatch(phase, taken_);
  if (taken_.empty()) return false;
  size_t rows = 0;
  MutexLock lock(mutex_);
  const SteadyTime now = clock_.Now();
  for (const RequestId id : taken_) {
    batch.requests.push_back(backlog_.Find(id));
  }
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    FetchAhead(batch.requests, i);
    Request& request = *batch.requests[i];
    const Piece piece = request.task->Next();
    request.stage = RequestStage::kRunning;
    if (!request.begun) {
      backlog_.MarkBegun(request);
      request.times.first_batch = now;
      metrics_.Queued(phase, now - request.times.submitted);
    }
    batch.items.push_back({.task = request.task.get(),
                           .session = &request.lane->session->state,
                           .piece = piece});
    rows += piece.rows;
  }
  metrics_.Batch(taken_.size(), rows);
  return true;
}

size_t Engine::Core::Commit(const Batch& batch, const BatchTimes& times) {
  metrics_.StepDuration(StepPhase::kProjection, times.model.projection);
  metrics_.StepDuration(StepPhase::kRecurrence, times.model.recurrence);
  metrics_.StepDuration(StepPhase::kOther, times.model.other);
  metrics_.StepDuration(StepPhase::kSample, times.sample);
  const MutexLock lock(mutex_);
  const MutexLock sessions(keeper_.mutex());
  now_ = clock_.Read();
  const size_t active = keeper_.active();
  for (size_t i = 0; i < batch.items.size(); ++i) {
    CommitItem(batch.items[i], *batch.requests[i]);
  }
  const size_t left_idle = active - keeper_.active();
  return left_idle == 0 ? 0 : left_idle + starting_.size();
}

void Engine::Core::CommitItem(const BatchItem& item, Request& request) {
  Session& session = *request.lane->session;
  request.times.last_batch_end = now_.steady;
  request.stage = RequestStage::kAsking;
  if (!item.piece.pending_only()) keeper_.Advanced(session, now_);
  // A drawn token counts when it is returned, which it is not if its output is
  // not finite.
  if (item.finite || item.piece.kind == TokenKind::kPrompt) {
    metrics_.Tokens(item.piece.kind, item.piece.completed_rows());
  }
  if (!item.finite) {
    metrics_.NonFiniteState();
    Settle(request, NotFinite(session));
  } else if (request.task->done()) {
    Settle(request, request.task->Outcome());
  } else if (request.end_when_back.has_value()) {
    End(request, *request.end_when_back);
  } else {
    continuing_.push_back(request.id);
  }
}

void Engine::Core::SendAnswers() {
  for (Answer& answer : answers_) {
    Request& request = *answer.request;
    request.task->Finish(answer.status, request.times);
    if (request.step != nullptr) {
      answered_steps_.push_back(std::move(answer.request));
    }
  }
  answered_ += answers_.size();
  answers_.clear();
  SendSteps();
  std::sort(answered_sinks_.begin(), answered_sinks_.end());
  const auto end = std::unique(answered_sinks_.begin(), answered_sinks_.end());
  std::for_each(answered_sinks_.begin(), end,
                [](StepSink* sink) { sink->OnRoundEnd(); });
  answered_sinks_.clear();
}

// Tells sinks what came of their steps. Those of one message mostly lie
// together, and their sink hears of them at once.
void Engine::Core::SendSteps() {
  for (size_t i = 0; i < answered_steps_.size(); ++i) {
    const StepTask& step = *answered_steps_[i]->step;
    step_answers_.push_back({step.tag(), &step.outcome()});
    if (i + 1 < answered_steps_.size() &&
        answered_steps_[i + 1]->step->sink() == step.sink()) {
      continue;
    }
    step.sink()->OnSteps(step_answers_);
    step_answers_.clear();
    answered_sinks_.push_back(step.sink());
  }
  if (!answered_steps_.empty()) steps_.GiveBack(answered_steps_);
}

void Engine::Core::EndEverything() {
  {
    const MutexLock lock(mutex_);
    while (elsewhere_ > returned_.size()) WaitFor(1, kMaxWait);
    const MutexLock sessions(keeper_.mutex());
    aborting_ = true;
    TakeReturned();
    EndAll();
  }
  SendAnswers();
  const MutexLock lock(mutex_);
  unanswered_ -= std::exchange(answered_, 0);
  idle_.SignalAll();
}

}  // namespace steadystate
