#include "server/engine/turns.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"
#include "server/engine/receiver.h"
#include "server/engine/request_errors.h"
#include "server/session/session_id.h"
#include "server/session/session_memory.h"

namespace steadystate {
namespace {

// How old the heartbeat of a healthy idle engine may become.
constexpr absl::Duration kMaxWait = absl::Seconds(1);

// A part of a bidirectional pass is work like a prompt's, however short.
BatchPhase PhaseOf(const Piece& piece) {
  return piece.rows > 1 || piece.part.has_value() ? BatchPhase::kPrefill
                                                  : BatchPhase::kDecode;
}

}  // namespace

bool Turns::TakeNotes(bool prefilling) {
  const MutexLock lock(desk_.mutex);
  desk_.unanswered -= outbox_.TakeCount();
  if (desk_.unanswered == 0) desk_.idle.SignalAll();
  metrics_.SetRequests(desk_.backlog.begun(), desk_.backlog.waiting());
  WaitForReturns(prefilling);
  WaitForWork(prefilling);
  desk_.noted = false;
  if (desk_.stopping) return false;
  now_ = clock_.Read();
  finishing_ = desk_.aborting;
  const MutexLock sessions(keeper_.mutex());
  keeper_.UpdateGauges();
  asking_.clear();
  // First, since what was deleted cannot be read either.
  EndStreams();
  EndEarly();
  EndStandstills();
  AnswerWritten();
  TakeReturned();
  if (desk_.aborting && !prefilling) EndAll();
  TakeReady();
  HandOver();
  return true;
}

bool Turns::TakeWritten() {
  if (!desk_.any_written.load(std::memory_order_relaxed)) return false;
  const MutexLock lock(desk_.mutex);
  const MutexLock sessions(keeper_.mutex());
  AnswerWritten();
  HandOver();
  return true;
}

void Turns::AnswerWritten() {
  for (Desk::Written& written : desk_.written) {
    --desk_.with_journal;
    gate_.NoteWritten(written.answers->round);
    GiveHeld(*written.answers, written.status);
  }
  desk_.written.clear();
  desk_.any_written = false;
}

// What was held goes out, or, if the log may not have what it tells, an error
// instead of it: nothing is acknowledged then.
void Turns::GiveHeld(HeldAnswers& answers, const absl::Status& status) {
  for (Request* const request : answers.going_on) {
    request->stage = RequestStage::kAsking;
    // Else EndAll would answer it a second time.
    if (desk_.aborting && !request->end.has_value()) {
      const Session& session = *request->lane->session;
      request->end = CutByDrain(session.id, session.position);
    }
    if (!status.ok()) {
      request->task->TakeBack();
      Settle(*request, CloneError(status));
    } else if (request->end.has_value()) {
      Settle(*request, *request->end);
    } else {
      Continue(*request);
    }
  }
  for (std::unique_ptr<Request>& request : answers.ended) {
    if (!status.ok() && !request->task->StandsAlone()) {
      request->task->TakeBack();
      if (request->end->ok()) request->end = CloneError(status);
    }
    outbox_.Add(std::move(request));
  }
  if (status.ok() && answers.wanted > 0) {
    returns_.Open(answers.batch_time, answers.wanted);
  }
}

// Its answer may go out, and it wants another batch.
void Turns::Continue(Request& request) {
  outbox_.Add(request);
  if (!LetJoin(request)) continuing_.push_back(request.id);
}

// What goes on, if its receiver is ready.
void Turns::TakeReady() {
  TakeJoining();
  for (const RequestId id : Taken(continuing_)) {
    Request* const request = desk_.backlog.Find(id);
    // Another one may be in front now.
    if (request == nullptr || request->stage != RequestStage::kAsking) continue;
    AskOrOrder(*request);
  }
  for (const RequestId id : Taken(desk_.woken)) {
    Request* const request = desk_.backlog.Find(id);
    if (request == nullptr) continue;
    request->wake_requested = false;
    if (request->stage == RequestStage::kPaused) Resume(*request);
  }
  // Grows while it is read: a refused request makes room for the next one.
  for (size_t i = 0; i < desk_.starting.size(); ++i) {
    if (Request* const request = desk_.backlog.Find(desk_.starting[i])) {
      StartTurn(*request);
    }
  }
  desk_.starting.clear();
}

// Where a session's first request has begun and is paused, what joins need not
// wait for it. One that is about to be asked or to have its turn may be paused
// then; where it computes, CommitItem lets them join.
void Turns::TakeJoining() {
  for (const RequestId id : Taken(desk_.joining)) {
    const Request* const request = desk_.backlog.Find(id);
    if (request == nullptr) continue;
    Request& first = *request->lane->requests.front();
    if (!first.begun) continue;
    if (first.stage == RequestStage::kPaused) {
      LetJoin(first);
    } else if (first.stage == RequestStage::kAsking ||
               first.stage == RequestStage::kQueued) {
      desk_.joining.push_back(id);
    }
  }
}

// What joins a session's requests, and is next, goes between two pieces of
// `first`, if that may end between them. True if anything does; the turn of
// `first` comes again after it.
bool Turns::LetJoin(Request& first) {
  auto& requests = first.lane->requests;
  if (requests.size() == 1 || !requests[1]->task->base().joins ||
      first.task->AllOrNothing()) {
    return false;
  }
  std::swap(requests[0], requests[1]);
  EndPause(first);
  first.stage = RequestStage::kQueued;
  desk_.starting.push_back(requests.front()->id);
  return true;
}

bool Turns::HasWork() const {
  return desk_.stopping || !scheduler_.empty() || !continuing_.empty() ||
         !desk_.starting.empty() || !desk_.joining.empty() ||
         !desk_.cancelled.empty() || !desk_.woken.empty() ||
         !desk_.orphaned.empty() || !desk_.ended_writers.empty() ||
         !desk_.returned.empty() || !desk_.written.empty() ||
         (desk_.aborting && desk_.with_journal == 0 &&
          desk_.backlog.size() > desk_.with_keeper);
}

// Until so many requests' turn has come or something else was noted. False if
// the time was up before.
bool Turns::WaitFor(size_t requests, absl::Duration timeout) {
  desk_.wake_at = requests;
  desk_.work.WaitFor(desk_.mutex, absl::ToChronoNanoseconds(timeout));
  return std::exchange(desk_.wake_at, 0) == 0;
}

// See ReturnWindow. Prompts that wait use the time better.
void Turns::WaitForReturns(bool prefilling) {
  if (desk_.stopping || desk_.aborting || prefilling ||
      scheduler_.waiting(BatchPhase::kPrefill)) {
    return;
  }
  while (returns_.StaysOpen(desk_.starting.size())) {
    if (WaitFor(returns_.wanted(), returns_.gap()) &&
        desk_.starting.size() < returns_.wanted()) {
      return;
    }
  }
}

void Turns::WaitForWork(bool prefilling) {
  if (prefilling || HasWork()) return;
  const absl::Duration wait =
      std::min(desk_.backlog.NextDeadline() - clock_.Now(), kMaxWait);
  if (wait <= absl::ZeroDuration()) return;
  WaitFor(1, wait);
}

// Empties `ids`, which keeps room for more. The result is valid until the next
// call.
std::span<const RequestId> Turns::Taken(std::vector<RequestId>& ids) {
  taken_.swap(ids);
  ids.clear();
  return taken_;
}

// What was with the keeper ends, or its turn comes again.
void Turns::TakeReturned() {
  for (Desk::Return& returned : desk_.returned) {
    --desk_.with_keeper;
    Request& request = *desk_.backlog.Find(returned.id);
    request.stage = RequestStage::kQueued;
    // Work that was done stays done, whatever came meanwhile.
    if (request.end.has_value() && !request.task->done()) {
      End(request, *request.end);
    } else if (!returned.status.ok() ||
               ((request.task->IsWork() || request.begun) &&
                request.task->done())) {
      Settle(request, returned.status.ok() ? request.task->Outcome()
                                           : std::move(returned.status));
    } else {
      desk_.starting.push_back(request.id);
    }
  }
  desk_.returned.clear();
}

// The requests before it are answered: may it begin? Or what joined is done:
// then it goes on.
void Turns::StartTurn(Request& request) {
  if (request.begun) {
    GoOn(request);
    return;
  }
  Session& session = *request.lane->session;
  const absl::Status health = keeper_.LogHealth(session);
  if (!health.ok()) {
    Settle(request, health);
    return;
  }
  if (session.moving || !session.state.in_memory()) {
    Order(request, nullptr);
    return;
  }
  if (!Prepare(request)) return;
  const SessionState& state = session.state;
  const uint64_t position = state.position();
  const bool is_work = request.task->IsWork();
  const bool as_expected =
      request.expected_position.value_or(position) == position;
  absl::Status status = as_expected || StartsAnew(request, state)
                            ? request.task->Begin(state)
                            : Repeat(request, state);
  // What makes its session a new one can do without its state.
  const bool resets = request.task->base().starts && request.task->IsWork();
  if (!is_work && !resets) status = IfSound(request, std::move(status));
  if (!status.ok() || request.task->done()) {
    Settle(request, status);
    return;
  }
  if (!request.task->IsWork()) AnswerEnders(request);
  if (request.task->IsWork() && request.task->ComputesAfterWork()) {
    NoteBegun(request, BatchPhase::kPrefill, now_.steady);
  }
  if (ForgetsWayBack(request)) {
    Order(request, [&keeper = keeper_](Session& worked_on) {
      keeper.undo().Hold(worked_on);
      return absl::OkStatus();
    });
    return;
  }
  AskOrOrder(request);
}

void Turns::NoteBegun(Request& request, BatchPhase phase, SteadyTime now) {
  desk_.backlog.MarkBegun(request);
  request.times.first_batch = now;
  metrics_.Queued(phase, now - request.times.submitted);
}

// All that the session absorbed after its snapshot is absorbed again.
absl::Status Turns::EndReplay(Session& session) {
  STEADYSTATE_RETURN_IF_ERROR(session.tail->CheckComplete(session.state));
  keeper_.Replayed(session);
  return absl::OkStatus();
}

// Does it begin its session anew, wherever that is? Not if it has before: of
// what it makes the records tell. Those of one that is kept for it are over.
bool Turns::StartsAnew(const Request& request, const SessionState& state) {
  const RequestBase& base = request.task->base();
  return base.starts &&
         !(!request.made_session && base.keyed() &&
           state.records().Find(base.request_id, *base.expected_position));
}

// The session is not where the request expects it to be.
absl::Status Turns::Repeat(const Request& request, const SessionState& state) {
  const RequestBase& base = request.task->base();
  std::optional<RequestRecord> record;
  if (base.keyed()) {
    record = state.records().Find(base.request_id, *base.expected_position);
  }
  if (record.has_value() && record->digest != request.task->digest()) {
    return RequestIdReused(record->id, record->begin);
  }
  if (!record.has_value() ||
      (!record->finished && record->end != state.position())) {
    metrics_.PositionMismatch();
    return PositionMismatch(request, state.position());
  }
  const absl::Status status = request.task->Resume(*record, state);
  if (status.ok()) metrics_.Replayed();
  return status;
}

// Of a request that is paused.
void Turns::Resume(Request& request) {
  EndPause(request);
  GoOn(request);
}

// Its session's state is wanted, or is another request's from now on.
void Turns::EndPause(Request& request) {
  if (request.stage != RequestStage::kPaused) return;
  keeper_.GoOn(*request.lane->session);
  standing_.erase({request.paused, request.id});
}

// Something has joined before a request that had begun, or that was paused. Its
// next piece comes before anything else joins, so that it gets on; unless it is
// paused then.
void Turns::GoOn(Request& request) {
  const absl::Status sound = IfSound(request, absl::OkStatus());
  if (!sound.ok()) {
    Settle(request, sound);
    return;
  }
  AskOrOrder(request);
  const auto& requests = request.lane->requests;
  if (requests.size() > 1 && requests[1]->task->base().joins) {
    desk_.joining.push_back(requests[1]->id);
  }
}

// Of a request that has begun, or may.
void Turns::AskOrOrder(Request& request) {
  if (request.task->IsWork()) {
    Order(request, [&task = *request.task](Session& worked_on) {
      return task.Work(worked_on);
    });
  } else if (SessionKeeper::IsReady(*request.lane->session) ||
             request.task->UndoneBeforePiece() > 0) {
    // In the midst of what is undone whole no other state takes the place of
    // the one that leads to its beginning.
    Ask(request);
  } else {
    Order(request, nullptr);
  }
}

void Turns::Ask(Request& request) {
  request.stage = RequestStage::kAsking;
  asking_.push_back(&request);
}

void Turns::Order(Request& request, SessionKeeper::Work work) {
  request.stage = RequestStage::kWithKeeper;
  ++desk_.with_keeper;
  keeper_.Order(*request.lane->session, std::move(work), request.client->id);
}

// A request whose session waits for memory need not. False if the keeper's
// thread is at work on it.
bool Turns::TakeBack(Request& request) {
  if (!keeper_.Withdraw(*request.lane->session)) return false;
  --desk_.with_keeper;
  request.stage = RequestStage::kQueued;
  return true;
}

// What waits for memory might wait for others that are to end, too.
void Turns::TakeBackAll() {
  const MutexLock sessions(keeper_.mutex());
  for (Request* const request : desk_.backlog.All()) {
    if (request->stage == RequestStage::kWithKeeper) TakeBack(*request);
  }
}

// Takes a request out of the backlog, to be answered.
void Turns::Settle(Request& request, absl::Status status) {
  Lane& lane = *request.lane;
  const bool had_its_turn = lane.requests.front().get() == &request;
  const bool ends = EndsSession(request, status);
  if (ends) EndBehind(request);
  EndPause(request);
  request.end = std::move(status);
  std::unique_ptr<Request> answered = desk_.backlog.Remove(request);
  if (ends && had_its_turn) {
    AnswerEnder(lane, std::move(answered));
  } else {
    AnswerEnders(*answered);
    gate_.Add(*lane.session, std::move(answered));
  }
  if (had_its_turn && lane.session->held != nullptr &&
      lane.session->undo == nullptr) {
    keeper_.DropHeld(*lane.session);
  }
  if (!lane.requests.empty()) {
    if (had_its_turn) desk_.starting.push_back(lane.requests.front()->id);
    return;
  }
  Session& session = *lane.session;
  desk_.backlog.CloseLane(lane);
  keeper_.LetGo(session, now_);
}

void Turns::AskReceivers() {
  bool any_paused = false;
  for (Request* const request : asking_) {
    if (request->lane->session->tail != nullptr || request->task->Ready()) {
      request->stage = RequestStage::kScheduled;
      const Piece piece = NextOf(*request);
      // Work without rows, on pending logits, counts as one.
      scheduler_.Add(*request, std::max<size_t>(piece.rows, 1), PhaseOf(piece));
    } else {
      request->stage = RequestStage::kPaused;
      any_paused = true;
    }
  }
  if (any_paused) NotePaused();
}

// Others may have the memory of those that are paused.
void Turns::NotePaused() {
  const MutexLock lock(keeper_.mutex());
  for (Request* const request : asking_) {
    if (request->stage != RequestStage::kPaused) continue;
    request->paused = now_.steady;
    if (!keeper_.Pause(*request->lane->session)) {
      standing_.emplace(request->paused, request->id);
    }
  }
}

// Ends what can be ended. True if there is more, which the journal has.
bool Turns::EndSome() {
  const MutexLock sessions(keeper_.mutex());
  AnswerWritten();
  TakeReturned();
  EndAll();
  HandOver();
  return desk_.with_journal > 0;
}

void Turns::EndEverything() {
  {
    const MutexLock lock(desk_.mutex);
    TakeBackAll();
    while (desk_.with_keeper > desk_.returned.size()) WaitFor(1, kMaxWait);
    desk_.aborting = true;
    while (EndSome()) WaitFor(1, kMaxWait);
  }
  outbox_.Send();
  const MutexLock lock(desk_.mutex);
  desk_.unanswered -= outbox_.TakeCount();
  desk_.idle.SignalAll();
}

}  // namespace steadystate
