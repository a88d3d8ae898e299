// Of SessionKeeper: what clients change of sessions, and the caps of those that
// come from elsewhere.

#include <algorithm>
#include <optional>

#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/session_id.h"
#include "server/session/session_keeper.h"
#include "server/session/session_limits.h"

namespace steadystate {
namespace {

absl::Status CheckChanges(const Shelf& shelf, const Session& session,
                          const SessionChanges& changes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf.mutex) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      const uint64_t cap,
      shelf.CapOf(changes.context_cap, session.state.context_cap()));
  STEADYSTATE_RETURN_IF_ERROR(CheckCapReaches(cap, session.position));
  if (changes.labels.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(
        Within("session", ValidateLabels(*changes.labels)));
  }
  if (!changes.ttl.has_value()) return absl::OkStatus();
  if (session.stream != 0) {
    return OutOfBounds("session.ttl", absl::FormatDuration(*changes.ttl),
                       "absent: an ephemeral session ends with its stream");
  }
  return Within("session", ValidateSessionTtl(*changes.ttl));
}

absl::Status ApplyChanges(Shelf& shelf, Session& session,
                          const SessionChanges& changes, const Moment& now)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf.mutex) {
  if (changes.context_cap.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(
        shelf.Resize(session, *changes.context_cap, now));
    session.asked_cap = 0;
  }
  if (changes.ttl.has_value()) session.ttl = *changes.ttl;
  if (changes.labels.has_value()) session.labels = *changes.labels;
  return absl::OkStatus();
}

}  // namespace

absl::Status SessionKeeper::GiveCap(Session& session,
                                    std::optional<uint64_t> asked,
                                    uint64_t of_snapshot, uint64_t position) {
  const uint64_t had = shelf_.CapOfStored(of_snapshot, position);
  STEADYSTATE_ASSIGN_OR_RETURN(
      const uint64_t cap,
      shelf_.CapOf(asked, std::min(had, shelf_.MostContextCap())));
  STEADYSTATE_RETURN_IF_ERROR(shelf_.CheckHolds(position));
  STEADYSTATE_RETURN_IF_ERROR(CheckCapReaches(cap, position));
  const Moment now = clock_.Read();
  const MutexLock lock(shelf_.mutex);
  STEADYSTATE_RETURN_IF_ERROR(shelf_.Resize(session, cap, now));
  shelf_.NoteAskedCap(session, asked.value_or(had));
  return absl::OkStatus();
}

absl::StatusOr<SessionInfo> SessionKeeper::Update(
    Session& session, const SessionChanges& changes) {
  const Moment now = clock_.Read();
  SessionChanges before;
  uint64_t asked_before = 0;
  {
    const MutexLock lock(shelf_.mutex);
    STEADYSTATE_RETURN_IF_ERROR(CheckChanges(shelf_, session, changes));
    before = {.context_cap = session.state.context_cap(),
              .ttl = session.ttl,
              .labels = session.labels};
    asked_before = session.asked_cap;
    STEADYSTATE_RETURN_IF_ERROR(ApplyChanges(shelf_, session, changes, now));
  }
  MayPark("SessionKeeper::Update");
  absl::Status stored;
  if (archive_ != nullptr && session.stream == 0 &&
      session.durability != Durability::kNone) {
    stored = thread_.SaveState(session);
    if (stored.ok() && IsLogged(session.durability)) stored = archive_->Sync();
  }
  const MutexLock lock(shelf_.mutex);
  if (!stored.ok()) {
    // What it had before, it has room for. The store may have the new values
    // all the same: what it is written down as next puts that right.
    (void)ApplyChanges(shelf_, session, before, now);
    session.asked_cap = asked_before;
    session.stored.reset();
    if (IsLogged(session.durability)) shelf_.log.Break(session);
  }
  shelf_.CountUnstored(session);
  UpdateGauges();
  STEADYSTATE_RETURN_IF_ERROR(stored);
  return shelf_.table.Describe(session, now);
}

}  // namespace steadystate
