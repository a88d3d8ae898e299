#include "server/session/keeper_thread.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// So long the thread sleeps at most: clocks of tests are not the one by which
// it waits.
constexpr absl::Duration kMaxWait = absl::Seconds(1);

// How long a store that has failed is left alone.
constexpr absl::Duration kStoreRetry = absl::Seconds(1);

// Sessions that are looked at under one lock when one of them is to leave
// memory: some microseconds of work.
constexpr size_t kIdleAtOnce = 16;

// Sessions that leave the store together.
constexpr size_t kRemovedAtOnce = 256;

absl::Status WrongPosition(uint64_t stored, uint64_t position) {
  return MakeError(
      ErrorReason::kSnapshotCorrupt,
      absl::StrCat("the session's snapshot in the store is at position ",
                   stored, ", not at ", position, "; delete the session"),
      {{"what", "position"}});
}

absl::Status Busy(const std::string& id) {
  return MakeError(ErrorReason::kSessionBusy,
                   absl::StrCat("a request is using session '", id,
                                "': wait for its answer"),
                   {{"session", id}});
}

}  // namespace

KeeperThread::KeeperThread(const Parts& parts, absl::Duration hibernate_after,
                           Returned returned)
    : parts_(parts),
      shelf_(parts.shelf),
      hibernate_after_(hibernate_after),
      returned_(std::move(returned)),
      thread_([this] { Loop(); }) {}

KeeperThread::~KeeperThread() { thread_.join(); }

void KeeperThread::Loop() {
  pthread_setname_np(pthread_self(), "keeper");  // as tools show it
  while (true) {
    {
      const MutexLock lock(shelf_.mutex);
      shelf_.UpdateGauges();
      WaitForWork();
      shelf_.EndExpired(parts_.clock.Read());
      BringWaiting();
      if (shelf_.stopping && shelf_.jobs.empty() && shelf_.waiting.empty())
        break;
    }
    MakeRoom();
    DoJob();
    RemoveSome();
    ClearOne();
    HibernateOneAsked();
    HibernateIfDue();
    SweepIfDue();
  }
  while (HibernateOneAsked()) continue;
  // What is left in the store comes back at the next start.
  do {
    store_retry_ = SteadyTime::InfinitePast();
  } while (RemoveSome());
}

bool KeeperThread::MayStore() const {
  return parts_.archive != nullptr && parts_.clock.Now() >= store_retry_;
}

void KeeperThread::NoteFailure(const absl::Status& failure) {
  store_retry_ = parts_.clock.Now() + kStoreRetry;
  store_failure_ = failure;
}

bool KeeperThread::HasWork() {
  return shelf_.stopping || shelf_.sweep.has_value() || !shelf_.jobs.empty() ||
         !shelf_.ended.empty() || !shelf_.bedtimes.empty() ||
         (!shelf_.waiting.empty() && shelf_.slot_may_come) ||
         (!shelf_.removals.empty() && MayStore());
}

void KeeperThread::WaitForWork() {
  if (HasWork()) return;
  const SteadyTime now = parts_.clock.Now();
  absl::Duration wait = std::min(shelf_.table.NextExpiry() - now, kMaxWait);
  if (MayStore()) {
    wait = std::min(wait, shelf_.table.IdleSince() + hibernate_after_ - now);
  }
  if (wait <= absl::ZeroDuration()) return;
  shelf_.wake.WaitFor(shelf_.mutex, absl::ToChronoNanoseconds(wait));
}

// Gives slots to those that wait for one, in order.
void KeeperThread::BringWaiting() {
  while (!shelf_.waiting.empty()) {
    if (!GiveSlot(shelf_.waiting.begin()->second)) return;
    EndFirstWait();
  }
}

// The first one that waits does so no more: its turn comes among the jobs.
void KeeperThread::EndFirstWait() {
  const auto first = shelf_.waiting.begin();
  first->second.session->job.reset();
  shelf_.jobs.push_back(std::move(first->second));
  shelf_.waiting.erase(first);
}

bool KeeperThread::GiveSlot(Shelf::Job& job) {
  SessionState& state = job.session->state;
  if (state.has_slot() || state.TakeOver()) return true;
  absl::StatusOr<StateLease> lease = parts_.pool.Allocate();
  if (lease.ok()) {
    state.SetSlot(*std::move(lease));
    return true;
  }
  // Some slot becomes free, or this one can take one over. Without a store
  // there is one for all that are charged.
  if (!shelf_.ended.empty() || !shelf_.jobs.empty()) return false;
  wants_room_ = parts_.archive != nullptr;
  if (wants_room_) return false;
  job.work = [refused = lease.status()](Session&) { return refused; };
  return true;
}

// For the first one that waits: the session that has been idle longest leaves
// memory.
void KeeperThread::MakeRoom() {
  if (!std::exchange(wants_room_, false)) return;
  if (MayStore() && HibernateOne(SteadyTime::InfiniteFuture(), kForOthers) !=
                        Room::kStoreFailed) {
    return;
  }
  const MutexLock lock(shelf_.mutex);
  if (shelf_.waiting.empty()) return;
  shelf_.waiting.begin()->second.work = [failed = store_failure_](Session&) {
    return failed;
  };
  EndFirstWait();
}

void KeeperThread::DoJob() {
  Shelf::Job job;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.jobs.empty()) return;
    job = std::move(shelf_.jobs.front());
    shelf_.jobs.pop_front();
  }
  MayPark("SessionKeeper::DoJob");
  absl::Status status = FillSlot(*job.session);
  if (status.ok() && job.work) status = job.work(*job.session);
  if (job.waited) parts_.metrics.Woken(parts_.clock.Now() - job.ordered);
  // Whoever ordered it may be about to let go of the session, and to end.
  job.work = nullptr;
  returned_(*job.session, std::move(status));
}

// A session that has been given a slot, and whose state is elsewhere, gets
// that.
absl::Status KeeperThread::FillSlot(Session& session) {
  SessionState& state = session.state;
  if (!state.has_slot() || state.in_memory()) return absl::OkStatus();
  if (state.stored()) return LoadSlot(session);
  state.CopyOrigin();
  std::shared_ptr<SessionState> origin;
  const MutexLock lock(shelf_.mutex);
  origin = state.DropOrigin();
  shelf_.slot_may_come = true;
  return absl::OkStatus();
}

absl::Status KeeperThread::LoadSlot(Session& session) {
  const absl::StatusOr<bool> other_numerics =
      parts_.archive->Load(session.uid, session.state);
  absl::Status status = other_numerics.status();
  if (status.ok() && session.state.position() != session.position) {
    status = WrongPosition(session.state.position(), session.position);
  }
  StateLease unused;
  const MutexLock lock(shelf_.mutex);
  if (!status.ok()) {
    unused = session.state.Leave();
    shelf_.slot_may_come = true;
    return status;
  }
  session.state.Arrive();
  session.other_numerics = session.other_numerics || *other_numerics;
  session.NoteRecords();
  return status;
}

// The same for a copy that waits for the thread. False if there was none.
bool KeeperThread::FillOne() {
  Session* unfilled = nullptr;
  {
    const MutexLock lock(shelf_.mutex);
    for (const Shelf::Job& job : shelf_.jobs) {
      const SessionState& state = job.session->state;
      if (state.has_slot() && state.origin() != nullptr) unfilled = job.session;
    }
  }
  if (unfilled == nullptr) return false;
  return FillSlot(*unfilled).ok();
}

// One at a time, so that nobody waits long for what else the thread does. False
// if there was none.
bool KeeperThread::ClearOne() {
  std::unique_ptr<Session> ended;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.ended.empty()) return false;
    ended = std::move(shelf_.ended.back());
    shelf_.ended.pop_back();
  }
  MayPark("SessionKeeper::ClearOne");
  return true;
}

absl::StatusOr<std::shared_ptr<SessionState>> KeeperThread::CopyOf(
    const SessionState& state) {
  auto copy = std::make_shared<SessionState>(parts_.layout);
  while (true) {
    absl::StatusOr<StateLease> lease = parts_.pool.Allocate();
    if (lease.ok()) {
      copy->SetSlot(*std::move(lease));
      copy->CopyFrom(state);
      return copy;
    }
    if (ClearOne() || FillOne()) continue;
    // Without a store what is charged has a slot by now, and those that have
    // one need no other one's.
    if (!MayStore()) return lease.status();
    const Room room = HibernateOne(SteadyTime::InfiniteFuture(), kForOthers);
    if (room == Room::kStoreFailed) return store_failure_;
    if (room == Room::kNone) return lease.status();
  }
}

// False if there were none, or the store has failed.
bool KeeperThread::RemoveSome() {
  if (!MayStore()) return false;
  std::vector<Shelf::Removal> removals;
  {
    const MutexLock lock(shelf_.mutex);
    std::vector<Shelf::Removal>& all = shelf_.removals;
    const size_t count = std::min(all.size(), kRemovedAtOnce);
    std::move(all.end() - static_cast<ptrdiff_t>(count), all.end(),
              std::back_inserter(removals));
    all.resize(all.size() - count);
  }
  if (removals.empty()) return false;
  std::vector<SessionUid> uids;
  uids.reserve(removals.size());
  for (const Shelf::Removal& removal : removals) uids.push_back(removal.uid);
  MayPark("SessionKeeper::RemoveSome");
  const absl::Status status = parts_.archive->Remove(uids);
  if (!status.ok()) NoteFailure(status);
  for (Shelf::Removal& removal : removals) {
    if (removal.removed) std::exchange(removal.removed, nullptr)(status);
  }
  if (status.ok()) return true;
  // Nobody waits for it any more, but it shall not come back.
  const MutexLock lock(shelf_.mutex);
  for (Shelf::Removal& removal : removals) {
    shelf_.removals.push_back(std::move(removal));
  }
  return false;
}

void KeeperThread::HibernateIfDue() {
  if (!MayStore() || hibernate_after_ == absl::InfiniteDuration()) return;
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
    if (room == Room::kStoreFailed) status = store_failure_;
    if (room == Room::kPerhaps) status = Busy(asked.id);
  }
  asked.hibernated(status);
  return true;
}

// Of the sessions that have not been used since then, the one that has been
// idle longest leaves memory.
KeeperThread::Room KeeperThread::HibernateOne(SteadyTime idle_since,
                                              Reason reason) {
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
  if (Save(session).ok()) {
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
  if (session.active && reason == kForItself) return false;
  shelf_.table.ForgetIdle(session);
  lease = session.state.Leave();
  origin = session.state.DropOrigin();
  shelf_.slot_may_come = true;
  if (session.active) {
    WaitAgain(session);
  } else {
    ++shelf_.hibernated;
  }
  parts_.metrics.Hibernated();
  return true;
}

// What has been ordered for the session while its state was in memory, if
// anything has, waits for a slot like others.
void KeeperThread::WaitAgain(Session& session) {
  const auto job = std::find_if(
      shelf_.jobs.begin(), shelf_.jobs.end(),
      [&](const Shelf::Job& other) { return other.session == &session; });
  if (job == shelf_.jobs.end()) return;
  job->waited = true;
  session.job = ++shelf_.last_job;
  shelf_.waiting.emplace(*session.job, std::move(*job));
  shelf_.jobs.erase(job);
}

// REQUIRES: Session::moving.
absl::Status KeeperThread::Save(Session& session) {
  StoredSession form;
  SteadyTime last_step;
  {
    const MutexLock lock(shelf_.mutex);
    last_step = session.last_step.steady;
    if (session.stored == session.position &&
        session.stored_step == last_step) {
      return absl::OkStatus();
    }
    form = session.ToStored();
  }
  const SessionState* const origin = session.state.origin();
  const absl::Status saved =
      parts_.archive->Save(form, origin == nullptr ? session.state : *origin);
  if (!saved.ok()) {
    NoteFailure(saved);
    // What has failed may have happened.
    const MutexLock lock(shelf_.mutex);
    session.may_be_stored = true;
    return saved;
  }
  const MutexLock lock(shelf_.mutex);
  session.stored = form.position;
  session.stored_step = last_step;
  return absl::OkStatus();
}

void KeeperThread::SweepIfDue() {
  SteadyTime deadline;
  {
    const MutexLock lock(shelf_.mutex);
    if (!shelf_.sweep.has_value()) return;
    deadline = *shelf_.sweep;
  }
  const size_t left = Sweep(deadline);
  const MutexLock lock(shelf_.mutex);
  shelf_.not_swept = left;
  shelf_.sweep.reset();
  shelf_.done.SignalAll();
}

// -> how many sessions the store does not have as they are.
size_t KeeperThread::Sweep(SteadyTime deadline) {
  std::vector<SessionKey> keys;
  {
    const MutexLock lock(shelf_.mutex);
    keys = shelf_.table.Keys();
  }
  size_t left = 0;
  for (const SessionKey& key : keys) {
    Session* session = nullptr;
    {
      const MutexLock lock(shelf_.mutex);
      session = shelf_.table.FindAny(key);
      // What the store alone has is there as it is.
      if (session == nullptr || session->state.stored()) continue;
      if (session->active || parts_.clock.Now() > deadline) {
        ++left;
        continue;
      }
      session->moving = true;
    }
    if (!Save(*session).ok()) ++left;
    const MutexLock lock(shelf_.mutex);
    session->moving = false;
  }
  return parts_.archive->Sync().ok() ? left : keys.size();
}

}  // namespace steadystate
