#include "server/session/session_undo.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/session_store.h"

namespace steadystate {

void SessionUndo::Hold(Session& session) {
  const auto held = std::make_shared<HeldWay>();
  held->position = session.state.position();
  absl::StatusOr<WayBack> way = past_.FindEarlier(
      session, held->position, session.state.unfinished_text());
  if (way.ok()) {
    held->way = *std::move(way);
  } else if (!saver_.MayStore() || !saver_.SaveState(session).ok()) {
    held->copy = CopyOf(session.state);
  }
  if (held->copy != nullptr) {
    held->way = WayBack{.begin = held->position,
                        .end = held->position,
                        .kept = &held->copy->state,
                        .repeatable_from = session.state.repeatable_from(),
                        .other_numerics = session.other_numerics};
  }
  const MutexLock lock(shelf_.mutex);
  shelf_.DropHeld(session);
  session.held = held;
}

// Charged like a session that nobody can name; null without memory for it, or
// if the state is not finite.
std::unique_ptr<Session> SessionUndo::CopyOf(const SessionState& state) {
  if (!saver_.health().IsStateFinite(state)) return nullptr;
  const uint64_t charge = layout_.charge_bytes(state.context_cap());
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.charges.left(Tier::kMemory) < charge) return nullptr;
    shelf_.charges.Take(Tier::kMemory, charge);
  }
  absl::StatusOr<StateLease> slot = new_slot_(state.context_cap());
  if (!slot.ok()) {
    const MutexLock lock(shelf_.mutex);
    shelf_.charges.GiveBack(Tier::kMemory, charge);
    return nullptr;
  }
  auto copy = std::make_unique<Session>(layout_);
  Shelf::NoteCharge(*copy, Tier::kMemory, charge);
  copy->state.set_context_cap(state.context_cap());
  copy->state.SetSlot(*std::move(slot));
  copy->state.CopyFrom(state);
  return copy;
}

absl::Status SessionUndo::Undo(Session& session, uint64_t position,
                               std::string unfinished_text) {
  const absl::StatusOr<WayBack> way = Find(session, position, unfinished_text);
  const absl::Status undone =
      way.ok() ? past_.Rewind(session, *way) : way.status();
  {
    const MutexLock lock(shelf_.mutex);
    if (undone.ok()) {
      shelf_.metrics.Rewound();
      shelf_.CountUnstored(session);
    } else {
      session.undo = std::make_unique<PendingUndo>(
          PendingUndo{.to = position,
                      .text = std::move(unfinished_text),
                      .retry = RetryAfter(undone)});
    }
  }
  return saver_.health().Failed(session, undone.ok());
}

void SessionUndo::RetryIfDue(Session& session) {
  {
    const MutexLock lock(shelf_.mutex);
    if (session.undo == nullptr || session.undo->retry > clock_.Now()) return;
  }
  Retry(session);
}

void SessionUndo::Retry(Session& session) {
  PendingUndo undo;
  {
    const MutexLock lock(shelf_.mutex);
    if (session.undo == nullptr ||
        session.undo->retry == SteadyTime::InfiniteFuture()) {
      return;
    }
    session.undo->retry = clock_.Now() + kStoreRetry;
    undo = *session.undo;
  }
  if (!saver_.MayStore()) return;
  MayPark("SessionUndo::Retry");
  absl::StatusOr<WayBack> way = Find(session, undo.to, undo.text);
  if (way.ok()) way->untold = true;
  const absl::Status undone =
      way.ok() ? past_.Rewind(session, *way) : way.status();
  const MutexLock lock(shelf_.mutex);
  if (undone.ok()) {
    shelf_.metrics.Rewound();
    shelf_.CountUnstored(session);
  } else if (session.undo != nullptr) {
    session.undo->retry = RetryAfter(undone);
  }
}

// Only a store that fails may do so no more.
SteadyTime SessionUndo::RetryAfter(const absl::Status& failure) const {
  return absl::IsUnavailable(failure) ? clock_.Now() + kStoreRetry
                                      : SteadyTime::InfiniteFuture();
}

absl::StatusOr<WayBack> SessionUndo::Find(Session& session, uint64_t position,
                                          absl::string_view unfinished_text) {
  if (session.held != nullptr && session.held->position == position &&
      session.held->way.has_value()) {
    WayBack way = *session.held->way;
    STEADYSTATE_RETURN_IF_ERROR(past_.Complete(session, way));
    return way;
  }
  absl::StatusOr<WayBack> way = past_.Find(session, position, unfinished_text);
  if (way.ok() || !absl::IsOutOfRange(way.status()) ||
      !IsLogged(session.durability)) {
    return way;
  }
  return FindLogged(session, position);
}

// What was answered is in the store and its log, embeddings and all.
absl::StatusOr<WayBack> SessionUndo::FindLogged(const Session& session,
                                                uint64_t position) {
  STEADYSTATE_ASSIGN_OR_RETURN(RecoveredSession found,
                               saver_.Recover(session, position));
  if (found.end != position) {
    return absl::OutOfRangeError("the log does not lead there");
  }
  WayBack way = {.begin = found.position, .end = found.end};
  if (found.position > 0) way.snapshot = std::move(found.snapshot);
  if (!found.tail.empty()) {
    way.pieces = std::make_shared<const std::string>(std::move(found.tail));
  }
  const MutexLock lock(shelf_.mutex);
  way.repeatable_from = std::min(session.repeatable_from, position);
  way.other_numerics = session.other_numerics || found.other_numerics;
  return way;
}

}  // namespace steadystate
