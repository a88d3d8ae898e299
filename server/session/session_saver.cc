#include "server/session/session_saver.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/journal.h"
#include "server/session/session_store.h"

namespace steadystate {
namespace {

// The log is cut shorter than this where it can be: what is read at a start.
constexpr uint64_t kLongLogBytes = uint64_t{64} << 20;

// Of those that are not in the store at the end.
constexpr size_t kMostNamed = 10;

// What such an error of reading a session from the store says of it, if another
// try does not help.
Unusable UnusableBecause(const absl::Status& error) {
  if (absl::IsDataLoss(error)) return Unusable::kSnapshotCorrupt;
  const auto details = GetErrorDetails(error);
  return details.has_value() &&
                 details->reason == ErrorReason::kNumericsMismatch
             ? Unusable::kOtherNumerics
             : Unusable::kNo;
}

}  // namespace

bool SessionSaver::MayStore() const {
  return archive_ != nullptr && clock_.Now() >= retry_;
}

// Of one that lies in the store the log has nothing but uses.
void SessionSaver::NoteUnusable(const SessionKey& key, const SessionUid& uid,
                                const absl::Status& why) {
  const Unusable unusable = UnusableBecause(why);
  if (unusable == Unusable::kNo) return;
  const MutexLock lock(shelf_.mutex);
  Session* const session = shelf_.table.FindAny(key);
  // Nobody asks for one that has ended meanwhile.
  if (session == nullptr || session->uid != uid) return;
  if (unusable == Unusable::kSnapshotCorrupt) {
    session->stored_step = session->last_step.steady;
    if (LiesInStore(*session)) {
      shelf_.log.Covered(*session, session->log.last, absl::ZeroDuration());
    }
  }
  if (!shelf_.SetUnusable(*session, unusable)) return;
  if (unusable == Unusable::kSnapshotCorrupt) {
    LogError("stored session is damaged", {{"session", key.id},
                                           {"uid", ToString(uid)},
                                           {"error", why.message()}});
  } else {
    LogWarning("stored session is of other numerics",
               {{"session", key.id},
                {"uid", ToString(uid)},
                {"error", why.message()}});
  }
}

void SessionSaver::NoteFailure(const absl::Status& failure) {
  retry_ = clock_.Now() + kStoreRetry;
  failure_ = failure;
}

absl::Status SessionSaver::Save(Session& session) {
  if (health_.IsNoted(session)) undo_(session);
  if (HasAsItIs(session)) return absl::OkStatus();
  STEADYSTATE_ASSIGN_OR_RETURN(const Snapshot snapshot, Take(session));
  return Put(session, snapshot);
}

absl::Status SessionSaver::SaveState(Session& session) {
  {
    const MutexLock lock(shelf_.mutex);
    // Of one that has been deleted nothing may return; one that is deleted from
    // now on is removed from the store afterwards.
    if (session.unlisted.has_value()) return absl::OkStatus();
    session.may_be_stored = true;
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const Snapshot snapshot, Take(session));
  return Put(session, snapshot);
}

// Does the store have the session as it is?
bool SessionSaver::HasAsItIs(const Session& session) const {
  // It has what the session has to absorb still.
  if (session.tail != nullptr) return true;
  const MutexLock lock(shelf_.mutex);
  return session.stored == session.position && !session.log.broken &&
         !session.log.listed && session.stored_step == session.last_step.steady;
}

// Is the session's state in the store, and not in memory, or not all of it?
bool SessionSaver::LiesInStore(const Session& session) {
  return session.state.stored() || session.tail != nullptr;
}

// Of a session that keeps the snapshot which the store has. REQUIRES: it has
// one.
void SessionSaver::DescribeSnapshot(const Session& session, StoredSession& to) {
  to.position = *session.snapshot;
  to.tail = session.stored_tail;
  to.drops_unfinished = session.snapshot_drops;
}

absl::Status SessionSaver::SaveLastUse(Session& session, Safety safety) {
  Snapshot snapshot = Describe(session);
  {
    const MutexLock lock(shelf_.mutex);
    // Of such a session the log has nothing but uses.
    if ((session.stored_step == snapshot.last_step && !session.log.listed) ||
        !session.snapshot.has_value()) {
      return absl::OkStatus();
    }
    DescribeSnapshot(session, snapshot.form);
    snapshot.finite = session.snapshot_finite;
  }
  absl::StatusOr<StoredState> stored = archive_->store().Read(session.uid);
  if (absl::IsDataLoss(stored.status())) {
    NoteUnusable(session.key(), session.uid, stored.status());
    return stored.status();
  }
  if (!stored.ok()) {
    NoteFailure(stored.status());
    return stored.status();
  }
  snapshot.bytes = std::move(stored->snapshot);
  snapshot.tail = std::move(stored->tail);
  return Put(session, snapshot, safety);
}

absl::Status SessionSaver::Mend(Session& session) {
  {
    const MutexLock lock(shelf_.mutex);
    // Of one that has been deleted nothing may return.
    if (!session.log.broken || session.unlisted.has_value()) {
      return absl::OkStatus();
    }
  }
  if (LiesInStore(session)) {
    return SaveLastUse(session, Safety::kFromLossOfPower);
  }
  STEADYSTATE_ASSIGN_OR_RETURN(const Snapshot snapshot, Take(session));
  return Put(session, snapshot, Safety::kFromLossOfPower);
}

bool SessionSaver::MendIdle() {
  if (!MayStore()) return false;
  Session* broken = nullptr;
  {
    const MutexLock lock(shelf_.mutex);
    broken = shelf_.log.FirstBroken();
    if (broken == nullptr) return false;
    broken->moving = true;
  }
  const bool mended = Mend(*broken).ok();
  const MutexLock lock(shelf_.mutex);
  broken->moving = false;
  return mended && !broken->log.broken;
}

SessionSaver::Snapshot SessionSaver::Describe(Session& session) {
  Snapshot snapshot;
  snapshot.start = clock_.Now();
  const MutexLock lock(shelf_.mutex);
  snapshot.form = session.ToStored();
  snapshot.last_step = snapshot.used = session.last_step.steady;
  if (session.active) {
    snapshot.used = snapshot.start;
    snapshot.form.card.last_step_time = clock_.WallNow();
  }
  snapshot.replay = session.log.replay;
  session.log.snapshot_due = false;
  // What fails may have happened; and it may be deleted before it has.
  session.may_be_stored = true;
  return snapshot;
}

absl::StatusOr<SessionSaver::Snapshot> SessionSaver::Take(Session& session) {
  if (health_.Examine(session)) return TakeState(session);
  absl::StatusOr<Snapshot> snapshot =
      HasSome(session) ? TakeStored(session) : TakeState(session);
  if (!snapshot.ok() && !absl::IsDataLoss(snapshot.status())) {
    NoteFailure(snapshot.status());
  }
  return snapshot;
}

// May the store, or the log, have anything of it?
bool SessionSaver::HasSome(const Session& session) const {
  const MutexLock lock(shelf_.mutex);
  return session.stored.has_value() || session.may_be_stored ||
         session.log.last > 0;
}

// What the store and the log have of it, for what it is now: what was answered
// of it, if it is logged. Where there is nothing, what it is.
absl::StatusOr<SessionSaver::Snapshot> SessionSaver::TakeStored(
    Session& session) {
  const uint64_t until =
      session.undo == nullptr ? UINT64_MAX : session.undo->to;
  STEADYSTATE_ASSIGN_OR_RETURN(RecoveredSession found, Recover(session, until));
  if (!found.known && session.log.last == 0) return TakeState(session);
  Snapshot snapshot = Describe(session);
  StoredSession& form = snapshot.form;
  form.taken_back = found.end != form.position;
  form.position = found.position;
  form.repeatable_from = found.repeatable_from;
  form.other_numerics = form.other_numerics || found.other_numerics;
  snapshot.bytes =
      found.known ? std::move(found.snapshot) : archive_->WriteNew(form);
  if (found.end > found.position) {
    form.tail = TailOf(session, found);
    snapshot.tail = std::move(found.tail);
  }
  const MutexLock lock(shelf_.mutex);
  snapshot.finite = session.snapshot_finite;
  form.drops_unfinished = found.known && session.snapshot_drops;
  return snapshot;
}

// Of what was recovered, how it is described.
StoredTail SessionSaver::TailOf(const Session& session,
                                const RecoveredSession& found) {
  const MutexLock lock(shelf_.mutex);
  StoredTail tail = {.end = found.end, .numerics = archive_->numerics_tag()};
  if (session.stored_tail.has_value() &&
      session.stored_tail->end > found.position) {
    const StoredTail& before = *session.stored_tail;
    const bool same = !found.has_rounds || before.numerics == tail.numerics;
    tail.numerics = same ? before.numerics : 0;
    tail.damaged = before.damaged;
    tail.remade = before.remade && !found.has_rounds;
  }
  tail.through_round = session.log.last;
  return tail;
}

absl::StatusOr<RecoveredSession> SessionSaver::Recover(const Session& session,
                                                       uint64_t until) {
  RoundSpan rounds = {.first = 1, .last = 0};
  std::future<void> written;
  {
    const MutexLock lock(shelf_.mutex);
    if (session.log.last > session.log.covered) {
      rounds = {.first = session.log.covered + 1, .last = session.log.last};
      // Those that are on their way are there then, or have failed.
      const auto told = std::make_shared<std::promise<void>>();
      written = told->get_future();
      shelf_.journal->Add("", Journal::Sync::kLater,
                          [told](const absl::Status&) { told->set_value(); });
    }
  }
  if (written.valid()) written.wait();
  return RecoverSession(*archive_, session.uid, rounds, until);
}

SessionSaver::Snapshot SessionSaver::TakeState(Session& session) {
  Snapshot snapshot = Describe(session);
  snapshot.finite = !health_.IsNoted(session);
  const SessionState* const origin = session.state.origin();
  snapshot.bytes = archive_->Write(snapshot.form,
                                   origin == nullptr ? session.state : *origin);
  return snapshot;
}

absl::Status SessionSaver::Put(Session& session, const Snapshot& snapshot,
                               Safety safety) {
  MayPark("SessionSaver::Put");
  absl::Status put = archive_->Put(snapshot.form, snapshot.bytes, snapshot.tail,
                                   snapshot.start);
  if (put.ok() && safety == Safety::kFromLossOfPower) put = archive_->Sync();
  if (!put.ok()) {
    NoteFailure(put);
    return put;
  }
  MayPark("SessionSaver::Put, done");
  const MutexLock lock(shelf_.mutex);
  const StoredSession& form = snapshot.form;
  session.stored = form.tail.has_value() ? form.tail->end : form.position;
  session.snapshot = form.position;
  session.snapshot_finite = snapshot.finite;
  session.snapshot_drops = form.drops_unfinished;
  session.stored_step = snapshot.last_step;
  session.noted_use = std::max(session.noted_use, snapshot.used);
  session.stored_tail = form.tail;
  shelf_.SetUnusable(session, Unusable::kNo);
  shelf_.log.Covered(session, snapshot.form.round, snapshot.replay);
  // It may have ended meanwhile.
  if (shelf_.table.FindAny(session.key()) == &session) {
    shelf_.CountUnstored(session);
  }
  return put;
}

absl::Status SessionSaver::PutMade(
    std::span<const std::unique_ptr<Session>> sessions) {
  std::vector<StoredChange> changes;
  {
    const MutexLock lock(shelf_.mutex);
    for (const std::unique_ptr<Session>& session : sessions) {
      if (!session->in_making || !session->snapshot.has_value()) continue;
      StoredSession& made =
          changes.emplace_back(StoredChange{.session = session->ToStored()})
              .session;
      DescribeSnapshot(*session, made);
      made.unfinished = false;
    }
  }
  if (changes.empty()) return absl::OkStatus();
  MayPark("SessionSaver::PutMade");
  absl::Status put = archive_->PutChanges(changes);
  if (!put.ok()) NoteFailure(put);
  return put;
}

std::optional<SessionSaver::Snapshot> SessionSaver::TakeIfDue(
    Session& session) {
  const bool may_store = MayStore();
  {
    const MutexLock lock(shelf_.mutex);
    if (!std::exchange(session.log.snapshot_due, false)) return std::nullopt;
    // Of one that has been deleted nothing may return.
    if (session.unlisted.has_value()) return std::nullopt;
    // Not at every step, while the store fails.
    if (!may_store) session.log.replay = absl::ZeroDuration();
  }
  if (!may_store || session.tail != nullptr || !session.state.in_memory() ||
      !health_.Examine(session)) {
    return std::nullopt;
  }
  return TakeState(session);
}

absl::Status SessionSaver::SaveLacking(Session& session) {
  return LiesInStore(session) ? SaveLastUse(session) : Save(session);
}

void SessionSaver::NoteUnsaved(const Session& session, Swept& swept) {
  ++swept.left;
  if (swept.some.size() == kMostNamed) return;
  swept.some.push_back({.id = session.id,
                        .logged = IsLogged(session.durability),
                        .stored = session.stored});
}

SessionSaver::Swept SessionSaver::Sweep(SteadyTime deadline) {
  std::vector<SessionKey> keys;
  {
    const MutexLock lock(shelf_.mutex);
    keys = shelf_.table.Keys();
  }
  Swept swept;
  for (const SessionKey& key : keys) {
    // A store that fails is not asked again for each of them.
    swept.store_failed = !MayStore();
    Session* session = nullptr;
    {
      const MutexLock lock(shelf_.mutex);
      session = shelf_.table.FindAny(key);
      // What the store alone has is there as it is, but for when it was used:
      // a request may have ended before the state was in memory.
      if (session == nullptr || session->durability == Durability::kNone ||
          (session->state.stored() &&
           session->stored_step == session->last_step.steady)) {
        continue;
      }
      if (session->active || clock_.Now() > deadline || swept.store_failed) {
        NoteUnsaved(*session, swept);
        continue;
      }
      session->moving = true;
    }
    const absl::Status saved = SaveLacking(*session);
    const MutexLock lock(shelf_.mutex);
    session->moving = false;
    if (!saved.ok() && !absl::IsDataLoss(saved)) NoteUnsaved(*session, swept);
  }
  const absl::Status synced = archive_->Sync();
  if (!synced.ok()) {
    NoteFailure(synced);
    swept.left = keys.size();
  }
  swept.store_failed = !MayStore();
  return swept;
}

bool SessionSaver::TrimLog(const std::function<void(Session&)>& due) {
  if (!MayStore()) return false;
  uint64_t needed = 0;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.journal == nullptr) return false;
    needed = std::min(shelf_.log.FirstNeeded(shelf_.journal->next_round()),
                      shelf_.removals.FirstNeeded());
  }
  SessionStore& store = archive_->store();
  if (store.CanDropRounds(needed)) {
    // The snapshots that stand for them must not be lost with the power.
    absl::Status status = archive_->Sync();
    MayPark("SessionSaver::TrimLog, synced");
    if (status.ok()) status = store.DropRounds(needed);
    if (!status.ok()) NoteFailure(status);
    return status.ok();
  }
  return store.RoundBytes() > kLongLogBytes && SaveOldest(due);
}

bool SessionSaver::SaveOldest(const std::function<void(Session&)>& due) {
  Session* oldest = nullptr;
  bool asked = false;
  uint64_t first = 0;
  {
    const MutexLock lock(shelf_.mutex);
    oldest = shelf_.log.oldest();
    if (oldest == nullptr || oldest->moving) return false;
    first = oldest->log.first;
    // Of one that waits for memory the log has a word of that again and again.
    if (!oldest->active || oldest->state.stored()) {
      oldest->moving = true;
    } else if (!std::exchange(oldest->log.snapshot_due, true)) {
      asked = true;
    } else {
      return false;
    }
  }
  if (asked) {
    due(*oldest);
    return false;
  }
  const bool saved = SaveLacking(*oldest).ok();
  const MutexLock lock(shelf_.mutex);
  oldest->moving = false;
  return saved && (!oldest->log.listed || oldest->log.first > first);
}

}  // namespace steadystate
