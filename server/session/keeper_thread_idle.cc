// Of KeeperThread: states that leave memory for the store.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/session/keeper_thread.h"

namespace steadystate {
namespace {

// Sessions that are looked at under one lock when one of them is to leave
// memory: some microseconds of work.
constexpr size_t kIdleAtOnce = 16;

absl::Status Busy(const std::string& id) {
  return MakeError(ErrorReason::kSessionBusy,
                   absl::StrCat("a request is using session '", id,
                                "': wait for its answer"),
                   {{"session", id}});
}

}  // namespace

void KeeperThread::HibernateIfDue() {
  if (!saver_.MayStore() || hibernate_after_ == absl::InfiniteDuration())
    return;
  const SteadyTime now = parts_.clock.Now();
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.table.IdleSince() + hibernate_after_ > now) return;
  }
  HibernateOne(now - hibernate_after_, kForItself);
}

// One that somebody has asked for leaves memory. False if there was none.
bool KeeperThread::HibernateOneAsked() {
  Shelf::Bedtime asked;
  Session* session = nullptr;
  absl::Status status;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.bedtimes.empty()) return false;
    asked = std::move(shelf_.bedtimes.front());
    shelf_.bedtimes.pop_front();
    const auto found =
        shelf_.table.Find({asked.id, asked.owner}, parts_.clock.Read());
    status = found.status();
    if (found.ok() && (*found)->active) status = Busy(asked.id);
    // It may be there already.
    if (status.ok() && !(*found)->state.stored()) session = *found;
    if (session != nullptr) session->moving = true;
  }
  if (session != nullptr) {
    const Room room = MoveOut(*session, kForItself);
    if (room == Room::kStoreFailed) status = saver_.failure();
    if (room == Room::kPerhaps) status = Busy(asked.id);
  }
  asked.hibernated(status);
  return true;
}

// Of the sessions that have not been used since then, the one that has been
// idle longest leaves memory. A store that is left alone has failed.
KeeperThread::Room KeeperThread::HibernateOne(SteadyTime idle_since,
                                              Reason reason) {
  if (!saver_.MayStore()) return Room::kStoreFailed;
  Session* session = nullptr;
  {
    const MutexLock lock(shelf_.mutex);
    session = shelf_.table.LongestIdle(kIdleAtOnce);
    if (session == nullptr) {
      const bool none =
          shelf_.table.IdleSince() == SteadyTime::InfiniteFuture();
      // Until somebody lets go of one.
      if (none && reason == kForOthers) shelf_.slot_may_come = false;
      return none ? Room::kNone : Room::kPerhaps;
    }
    if (session->last_step.steady > idle_since) return Room::kNone;
    session->moving = true;
  }
  return MoveOut(*session, reason);
}

// Of a session that is moving the state goes to the store, and out of memory.
KeeperThread::Room KeeperThread::MoveOut(Session& session, Reason reason) {
  MayPark("SessionKeeper::MoveOut");
  if (saver_.Save(session).ok()) {
    return Leave(session, reason) ? Room::kMade : Room::kPerhaps;
  }
  const MutexLock lock(shelf_.mutex);
  session.moving = false;
  return Room::kStoreFailed;
}

// The session's state is in the store as it is: it leaves memory. If somebody
// has asked for it meanwhile, it stays, unless others have waited for longer.
bool KeeperThread::Leave(Session& session, Reason reason) {
  StateLease lease;
  std::shared_ptr<SessionState> origin;
  const MutexLock lock(shelf_.mutex);
  session.moving = false;
  if (shelf_.table.FindAny(session.key()) != &session) return false;
  if (session.active && !session.paused && reason == kForItself) return false;
  const absl::Time now = parts_.clock.WallNow();
  if (session.health == Health::kNotFinite && session.stored.has_value() &&
      session.stored != session.position) {
    session.position = session.repeatable_from = *session.stored;
    session.health = Health::kTakenBack;
    shelf_.Note(SessionEventKind::kRewound, session, now);
  }
  shelf_.Note(reason == kForOthers ? SessionEventKind::kEvicted
                                   : SessionEventKind::kHibernated,
              session, now);
  shelf_.table.ForgetIdle(session);
  session.undo.reset();
  shelf_.DropHeld(session);
  lease = session.state.Leave();
  session.tail.reset();
  origin = session.state.DropOrigin();
  shelf_.slot_may_come = true;
  if (session.active) {
    WaitAgain(session);
  } else {
    ++shelf_.HibernatedLike(session);
  }
  shelf_.CountUnstored(session);
  parts_.metrics.Hibernated();
  return true;
}

}  // namespace steadystate
