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

// All but the cap.
void ApplyChanges(Session& session, const SessionChanges& changes) {
  if (changes.ttl.has_value()) session.ttl = *changes.ttl;
  if (changes.labels.has_value()) session.labels = *changes.labels;
}

// As Shelf::Resize, once others have left memory for it if need be.
absl::Status Resize(Shelf& shelf, KeeperThread& thread, Session& session,
                    uint64_t cap, const Moment& now)
    ABSL_LOCKS_EXCLUDED(shelf.mutex) {
  while (true) {
    {
      const MutexLock lock(shelf.mutex);
      STEADYSTATE_ASSIGN_OR_RETURN(const bool resized,
                                   shelf.Resize(session, cap, now));
      if (resized) return absl::OkStatus();
    }
    STEADYSTATE_ASSIGN_OR_RETURN(const bool freed, thread.FreeSome());
    if (freed) continue;
    const MutexLock lock(shelf.mutex);
    return shelf.Refused(Tier::kMemory, shelf.layout.charge_bytes(cap), now);
  }
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
  STEADYSTATE_RETURN_IF_ERROR(
      Resize(shelf_, thread_, session, cap, clock_.Read()));
  const MutexLock lock(shelf_.mutex);
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
  }
  if (changes.context_cap.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(
        Resize(shelf_, thread_, session, *changes.context_cap, now));
  }
  {
    const MutexLock lock(shelf_.mutex);
    if (changes.context_cap.has_value()) session.asked_cap = 0;
    ApplyChanges(session, changes);
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
    (void)shelf_.Resize(session, *before.context_cap, now);
    ApplyChanges(session, before);
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
