// Of Turns: whether a session can go on from its state, and what becomes of one
// whose output is not finite.

#include <cstdint>

#include "server/engine/request_errors.h"
#include "server/engine/turns.h"
#include "server/engine/unfinished_text.h"
#include "server/session/session_health.h"
#include "server/session/session_past.h"
#include "server/session/session_undo.h"

namespace steadystate {

// May a request on the session begin? If not the request has ended, or comes
// back when the session has been ordered or has absorbed some of its tail.
bool Turns::Prepare(Request& request) {
  Session& session = *request.lane->session;
  if (session.health == Health::kNotFinite) {
    // It computes nothing, and nothing of it is saved.
    if (session.undo == nullptr || session.undo->retry > now_.steady) {
      return true;
    }
    Order(request, nullptr);
    return false;
  }
  if (session.tail != nullptr && session.tail->done()) {
    const absl::Status complete = EndReplay(session);
    if (!complete.ok()) {
      Settle(request, complete);
      return false;
    }
  }
  if (!SessionKeeper::IsReady(session)) {
    Order(request, nullptr);
    return false;
  }
  if (session.tail == nullptr) return true;
  Ask(request);
  return false;
}

// Would the Step leave no way back to where it begins? Where there is none now
// either, one is made for a Step of more than one piece alone: it costs as much
// as copying the state.
bool Turns::ForgetsWayBack(const Request& request) const {
  const Session& session = *request.lane->session;
  const Task& task = *request.task;
  // The log does not forget; and to where all begins there always is a way.
  if (!task.AllOrNothing() || task.IsWork() || task.UndoneBeforePiece() > 0 ||
      IsLogged(session.durability) || session.unlisted.has_value()) {
    return false;
  }
  const size_t history = session.state.history_capacity();
  if (session.KeepsWayBack(task.rows(), history)) return false;
  if (session.held != nullptr && session.held->position == session.position) {
    return false;
  }
  return task.rows() > chunk_rows_ || session.KeepsWayBack(0, history);
}

// What a request that has its turn, and is no work, ends with where the session
// cannot go on, or is not where the client thinks; `begun` otherwise. What
// needs no state is answered all the same.
absl::Status Turns::IfSound(const Request& request, absl::Status begun) {
  Session& session = *request.lane->session;
  switch (session.health) {
    case Health::kSound:
      break;
    case Health::kNotFinite:
      if (begun.ok() && request.task->done()) break;
      return StateNotFinite(session, /*restored=*/false);
    case Health::kTakenBack:
      session.health = Health::kSound;
      return StateNotFinite(session, /*restored=*/true);
  }
  return begun;
}

// What the batch has computed of the request is not finite. A session is taken
// back to before the piece, or before the whole Step; then the request ends.
// The log has nothing of the piece.
void Turns::Undo(const BatchItem& item, Request& request) {
  Session& session = *request.lane->session;
  if (session.unlisted.has_value()) {
    metrics_.NonFiniteState(NonFinite::kNoSession);
    Settle(request, NotFinite());
    return;
  }
  if (item.piece.pending_only()) {
    // Its state is what it was. It has no logits any more.
    metrics_.NonFiniteState(NonFinite::kRestored);
    Settle(request, StateNotFinite(session, /*restored=*/true));
    return;
  }
  session.health = Health::kNotFinite;
  const uint64_t position = session.state.position() - item.piece.rows -
                            request.task->UndoneBeforePiece();
  // The engine, which has both, waits for what is with the keeper.
  Order(request, [position, &keeper = keeper_, &model = model_](Session& s) {
    return keeper.undo().Undo(s, position,
                              UnfinishedTextAt(model, s.state, position));
  });
}

}  // namespace steadystate
