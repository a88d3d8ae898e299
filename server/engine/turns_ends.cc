// Of Turns: requests, and sessions of streams, that end before their time.

#include <memory>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/engine/request_errors.h"
#include "server/engine/turns.h"
#include "server/session/session_id.h"

namespace steadystate {

// Ends all requests, steps that have begun included, but for those that are
// with the keeper. No batch is running.
void Turns::EndAll() {
  for (Request* const request : desk_.backlog.All()) {
    // It may have ended with one before it; then it waits to be answered.
    if (desk_.backlog.Find(request->id) != request) continue;
    if (request->stage == RequestStage::kWithKeeper && !TakeBack(*request)) {
      continue;
    }
    // Its state may be with the keeper, for a request before this one.
    const Session& session = *request->lane->session;
    const absl::Status cut = CutByDrain(session.id, session.position);
    if (request->stage == RequestStage::kHeld) {
      if (!request->end.has_value()) request->end = cut;
      continue;
    }
    if (request->stage == RequestStage::kScheduled) {
      scheduler_.Remove(*request);
    }
    Settle(*request, cut);
  }
}

// Ends the sessions of a stream that has ended, some at a time: there may be
// thousands of them, and others compute in between.
void Turns::EndStreams() {
  constexpr size_t kAtOnce = 64;
  if (desk_.ended_writers.empty()) return;
  const std::vector<Session*> ended =
      keeper_.OfStream(desk_.ended_writers.back(), kAtOnce);
  if (ended.size() < kAtOnce) desk_.ended_writers.pop_back();
  for (Session* const session : ended) {
    Shelf::Removed never_stored;
    if (keeper_.Delete(*session, now_, never_stored)) desk_.Orphan(*session);
  }
  // Looks again after the next batch.
  if (!desk_.ended_writers.empty()) desk_.noted = true;
}

// Ends the requests that shall not go on. The overdue ones first: a client
// whose deadline passes cancels the call as well.
void Turns::EndEarly() {
  while (Request* const request = desk_.backlog.TakeOverdue(now_.steady)) {
    End(*request, Unfinished(ErrorReason::kDeadlineExceeded,
                             "the request's deadline passed", *request));
  }
  for (const RequestId id : Taken(desk_.cancelled)) {
    Request* const request = desk_.backlog.Find(id);
    if (request == nullptr) continue;
    End(*request, Unfinished(ErrorReason::kCancelled,
                             "the request was cancelled", *request));
  }
  for (const RequestId id : Taken(desk_.orphaned)) {
    Request* const request = desk_.backlog.Find(id);
    if (request == nullptr) continue;
    End(*request, DeletedMeanwhile(request->lane->session->id));
  }
}

// What can neither go on, since its client does not read, nor leave memory,
// ends when others have waited for that memory for long.
void Turns::EndStandstills() {
  const SteadyTime latest = now_.steady - kMaxStandstill;
  while (!standing_.empty() && standing_.begin()->first <= latest &&
         keeper_.AwaitsSlot()) {
    Request& request = *desk_.backlog.Find(standing_.begin()->second);
    standing_.erase(standing_.begin());
    End(request, StandsStill(request));
  }
}

// Is the session over with the request (RequestBase::ends, starts, ephemeral)?
bool Turns::EndsSession(const Request& request,
                        const absl::Status& status) const {
  const Session& session = *request.lane->session;
  if (session.unlisted.has_value()) return false;
  if (status.ok()) return request.task->base().ends;
  return request.made_session &&
         (!request.begun || request.task->IsWork() || session.position == 0);
}

// Ends what would go on with a session that is over, which nobody is told of
// before. What starts it anew may be queued already: then it stays, for that.
void Turns::EndBehind(const Request& last) {
  const Lane& lane = *last.lane;
  const auto& requests = lane.requests;
  if (requests.front().get() != &last) return;
  const auto makes_it = [](const RequestBase& base) {
    return base.starts || base.ephemeral;
  };
  size_t next = 1;
  while (next < requests.size() && !makes_it(requests[next]->task->base())) {
    const size_t before = requests.size();
    End(*requests[next], DeletedMeanwhile(lane.session->id));
    if (requests.size() == before) ++next;
  }
  if (next < requests.size()) requests[next]->made_session = true;
}

// Of a request that has ended the lane's session. Where that is kept for
// another one its answer waits for that one.
void Turns::AnswerEnder(Lane& lane, std::unique_ptr<Request> ender) {
  Answers answers = std::move(ender->enders);
  ender->enders.clear();
  answers.push_back(std::move(ender));
  if (lane.requests.empty()) {
    ending_.emplace_back(lane.session, std::move(answers));
  } else {
    lane.requests.front()->enders = std::move(answers);
  }
}

// The request has begun the session anew that they had ended; or somebody has
// deleted that.
void Turns::AnswerEnders(Request& request) {
  if (request.enders.empty()) return;
  Answers answers = std::move(request.enders);
  request.enders.clear();
  Session& session = *request.lane->session;
  if (session.unlisted.has_value()) {
    AnswerWhenGone(session, std::move(answers));
    return;
  }
  for (std::unique_ptr<Request>& ender : answers) {
    gate_.Add(session, std::move(ender));
  }
}

// Lets the session end, if it has not, and answers when it will not come back;
// where it may, the answer is why.
void Turns::AnswerWhenGone(Session& session, Answers answers) {
  const auto held = std::make_shared<HeldAnswers>();
  held->ended = std::move(answers);
  Shelf::Removed removed = [&desk = desk_, held](const absl::Status& status) {
    desk.NoteWritten(held, CloneError(status));
  };
  ++desk_.with_journal;
  if (session.unlisted.has_value()) {
    keeper_.JoinDeletion(session.key(), removed);
  } else {
    keeper_.Delete(session, now_, removed);
  }
  if (!removed) return;
  // No store has it.
  --desk_.with_journal;
  for (std::unique_ptr<Request>& request : held->ended) {
    outbox_.Add(std::move(request));
  }
}

// Gives what there is to answer, or to write, to whom it is for. What the round
// tells of has to be there until then.
void Turns::HandOver() {
  gate_.HandOver(desk_, keeper_);
  for (auto& [session, answers] : ending_) {
    AnswerWhenGone(*session, std::move(answers));
  }
  ending_.clear();
}

void Turns::End(Request& request, const absl::Status& status) {
  // Whoever deleted the session asks for no record of how far it came.
  const bool deleted = absl::IsNotFound(status);
  if (request.begun && request.task->AllOrNothing() && !deleted) return;
  if (request.stage == RequestStage::kRunning ||
      request.stage == RequestStage::kHeld ||
      (request.stage == RequestStage::kWithKeeper && !TakeBack(request))) {
    // Its session is between two layers, or somebody else's; or an answer to it
    // is on its way.
    if (deleted || !request.end.has_value()) request.end = status;
    return;
  }
  if (!deleted) {
    metrics_.Cancelled(
        request.begun ? CancelStage::kRunning : CancelStage::kQueued,
        status.code() == absl::StatusCode::kCancelled
            ? CancelSource::kClient
            : CancelSource::kDeadline);
  }
  if (request.stage == RequestStage::kScheduled) scheduler_.Remove(request);
  Settle(request, status);
}

}  // namespace steadystate
