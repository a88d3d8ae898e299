// Of Turns: batches, from what is ready to what came of it.

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

#include "server/engine/request_errors.h"
#include "server/engine/turns.h"
#include "server/session/log_entry.h"
#include "server/session/session_memory.h"

namespace steadystate {
namespace {

// How long answers may wait for the log before others compute: this share of
// the batch's time, within bounds; a round takes some microseconds to write.
constexpr int64_t kHoldShare = 16;
constexpr absl::Duration kLeastHold = absl::Microseconds(100);
constexpr absl::Duration kMostHold = absl::Milliseconds(2);

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

// What its session has to absorb again comes first.
Piece Turns::NextOf(const Request& request) const {
  const LogTail* const tail = request.lane->session->tail.get();
  if (tail == nullptr) return request.task->Next();
  const LogTail::Rows rows = tail->Next(chunk_rows_);
  return {.tokens = rows.tokens,
          .embeddings = rows.embeddings,
          .rows = rows.count,
          .logits_begin = rows.count,
          .logits_end = rows.count,
          .kind = rows.drawn ? TokenKind::kGenerated : TokenKind::kPrompt};
}

// False if nothing is ready.
bool Turns::FormBatch(BatchPhase phase, Batch& batch) {
  scheduler_.TakeBatch(phase, batch.requests);
  if (batch.requests.empty()) return false;
  size_t rows = 0;
  const MutexLock lock(desk_.mutex);
  const SteadyTime now = clock_.Now();
  for (size_t i = 0; i < batch.requests.size(); ++i) {
    FetchAhead(batch.requests, i);
    Request& request = *batch.requests[i];
    Session& session = *request.lane->session;
    const bool replays = session.tail != nullptr;
    const Piece piece = NextOf(request);
    request.stage = RequestStage::kRunning;
    if (!request.begun && !replays) {
      NoteBegun(request, phase, now);
    }
    const bool logged = IsLogged(session.durability);
    if (logged && !replays && !piece.pending_only()) {
      LogEntryWriter::Inputs(piece.tokens, piece.embeddings, batch.inputs);
    }
    batch.input_ends.push_back(batch.inputs.size());
    batch.items.push_back({.task = replays ? nullptr : request.task.get(),
                           .session = &session.state,
                           .piece = piece,
                           .answered_later = logged});
    rows += piece.rows;
  }
  metrics_.Batch(batch.requests.size(), rows);
  return true;
}

void Turns::Commit(BatchPhase phase, const Batch& batch,
                   const BatchTimes& times, absl::Duration time) {
  metrics_.StepDuration(StepPhase::kProjection, times.model.projection);
  metrics_.StepDuration(StepPhase::kRecurrence, times.model.recurrence);
  metrics_.StepDuration(StepPhase::kOther, times.model.other);
  metrics_.StepDuration(StepPhase::kSample, times.sample);
  const MutexLock lock(desk_.mutex);
  const MutexLock sessions(keeper_.mutex());
  now_ = clock_.Read();
  const size_t active = keeper_.active();
  if (phase == BatchPhase::kDecode) {
    gate_.cost().NoteDecode(time);
  } else {
    size_t rows = 0;
    for (const BatchItem& item : batch.items) rows += item.piece.rows;
    gate_.cost().NotePrefill(time, rows);
  }
  size_t begin = 0;
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const size_t end = batch.input_ends[i];
    CommitItem(batch.items[i], *batch.requests[i],
               absl::string_view(batch.inputs).substr(begin, end - begin));
    begin = end;
  }
  keeper_.UpdateGauges();
  const size_t left_idle = active - keeper_.active();
  const size_t wanted = left_idle == 0 ? 0 : left_idle + desk_.starting.size();
  hold_ = absl::ZeroDuration();
  if (phase == BatchPhase::kDecode && gate_.holds_any()) {
    gate_.SetWindow(time, wanted);
    hold_ = std::clamp(time / kHoldShare, kLeastHold, kMostHold);
  } else if (phase == BatchPhase::kDecode) {
    returns_.Open(time, wanted);
  }
  HandOver();
}

bool Turns::AwaitWritten(bool prefilling) {
  if (hold_ == absl::ZeroDuration() || prefilling) return false;
  const auto give_up =
      std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(hold_);
  const MutexLock lock(desk_.mutex);
  while (desk_.written.empty()) {
    const auto left = give_up - std::chrono::steady_clock::now();
    if (left <= left.zero() || desk_.stopping || desk_.aborting ||
        scheduler_.waiting(BatchPhase::kPrefill)) {
      return false;
    }
    // Steps that arrive wake nobody meanwhile.
    WaitFor(std::numeric_limits<size_t>::max(), absl::FromChrono(left));
  }
  const MutexLock sessions(keeper_.mutex());
  AnswerWritten();
  HandOver();
  return true;
}

void Turns::CommitItem(const BatchItem& item, Request& request,
                       absl::string_view inputs) {
  request.stage = RequestStage::kAsking;
  if (item.task == nullptr) {
    CommitReplay(item, request);
    return;
  }
  Session& session = *request.lane->session;
  request.times.last_batch_end = now_.steady;
  if (!item.finite) {
    Undo(item, request);
    return;
  }
  // The log lacks a round before this one: it cannot go on there.
  const bool broken = AnswerGate::Logs(session) && session.log.broken;
  if (!item.piece.pending_only()) {
    keeper_.Advanced(session, now_);
    const RequestBase& base = request.task->base();
    if (base.keyed()) {
      session.recorded.Note(
          RecordedKeys::KeyOf(base.request_id, *base.expected_position));
    }
    if (!broken) gate_.Absorbed(request, item.piece, inputs, now_, keeper_);
  }
  metrics_.Tokens(item.piece.kind, item.piece.completed_rows());
  if (broken) {
    request.task->TakeBack();
    Settle(request, NotLogged(session));
  } else if (request.task->done()) {
    Settle(request, request.task->Outcome());
  } else if (request.end.has_value()) {
    End(request, *request.end);
  } else if (gate_.Holds(session) && request.task->HasItems()) {
    request.stage = RequestStage::kHeld;
    gate_.Hold(request);
  } else {
    Continue(request);
  }
}

void Turns::CommitReplay(const BatchItem& item, Request& request) {
  Session& session = *request.lane->session;
  session.tail->Absorbed(item.piece.rows, session.state);
  if (!item.finite) {
    session.health = Health::kNotFinite;
    metrics_.NonFiniteState(NonFinite::kNotRestored);
  }
  metrics_.ReplayedTokens(item.piece.rows);
  session.log.replay += gate_.cost().Of(item.piece);
  if (request.end.has_value()) {
    End(request, *request.end);
    return;
  }
  request.stage = RequestStage::kQueued;
  desk_.starting.push_back(request.id);
}

}  // namespace steadystate
