#include "server/session/keeper_thread.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/session/journal.h"

namespace steadystate {
namespace {

// Sessions without slots that are destroyed together: a client may have
// hundreds of forks, none of which it has used, end at once.
constexpr size_t kEndedAtOnce = 16;

absl::Status WrongPosition(uint64_t stored, uint64_t position) {
  return MakeError(
      ErrorReason::kSnapshotCorrupt,
      absl::StrCat("the session's snapshot in the store is at position ",
                   stored, ", not at ", position, "; delete the session"),
      {{"what", "position"}});
}

}  // namespace

KeeperThread::KeeperThread(const Parts& parts, absl::Duration hibernate_after,
                           Returned returned, Due due)
    : parts_(parts),
      shelf_(parts.shelf),
      hibernate_after_(hibernate_after),
      returned_(std::move(returned)),
      due_(std::move(due)),
      health_(parts.layout, parts.shelf),
      saver_(parts.shelf, parts.archive, health_, parts.clock,
             [this](Session& session) { undo_.Retry(session); }),
      remover_(parts.shelf, parts.archive, saver_, parts.clock),
      past_(parts.layout, parts.shelf, parts.archive, saver_, parts.clock),
      undo_(parts.layout, parts.shelf, saver_, past_, parts.clock,
            [this](uint64_t cap) { return NewSlot(cap); }),
      prefixes_(parts.shelf, parts.archive, saver_, past_, parts.clock,
                parts.metrics,
                [this](const SessionState& state) {
                  return CopyOf(state, state.context_cap());
                }),
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
    remover_.RemoveSome();
    ClearOne();
    HibernateOneAsked();
    HibernateIfDue();
    SweepIfDue();
    log_wants_more_ = saver_.MendIdle() || saver_.TrimLog(due_);
  }
  while (HibernateOneAsked()) continue;
  remover_.Finish();
}

bool KeeperThread::HasWork() {
  return shelf_.stopping || MaySweep() || !shelf_.jobs.empty() ||
         !shelf_.ended.empty() || !shelf_.bedtimes.empty() ||
         (!shelf_.waiting.empty() && shelf_.slot_may_come) ||
         remover_.HasWork() || (log_wants_more_ && saver_.MayStore());
}

void KeeperThread::WaitForWork() {
  if (HasWork()) return;
  const SteadyTime now = parts_.clock.Now();
  absl::Duration wait = std::min(shelf_.table.NextExpiry() - now, kMaxSleep);
  if (saver_.MayStore()) {
    wait = std::min(wait, shelf_.table.IdleSince() + hibernate_after_ - now);
  }
  if (shelf_.sweep.has_value()) wait = std::min(wait, *shelf_.sweep - now);
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
  shelf_.jobs.Add(std::move(first->second));
  shelf_.waiting.erase(first);
}

bool KeeperThread::GiveSlot(Job& job) {
  SessionState& state = job.session->state;
  if (state.has_slot() || state.TakeOver()) return true;
  absl::StatusOr<StateLease> lease = parts_.pool.Allocate(state.lease_bytes());
  if (lease.ok()) {
    state.SetSlot(*std::move(lease));
    return true;
  }
  // Some slot becomes free, or this one can take one over. Without a store
  // there is one for all that are charged.
  const bool found_none = std::exchange(job.found_none, true);
  if (!found_none) parts_.metrics.SlotAwaited();
  const bool may_come = !shelf_.ended.empty() || !shelf_.jobs.empty();
  // With one for all that comes. With a store others may have more and more of
  // both, which is waited for once.
  if (may_come && (parts_.archive == nullptr || !found_none)) return false;
  wants_room_ = parts_.archive != nullptr;
  if (wants_room_) return false;
  job.work = [refused = lease.status()](Session&) { return refused; };
  return true;
}

// For the first one that waits: the session that has been idle longest leaves
// memory.
void KeeperThread::MakeRoom() {
  if (!std::exchange(wants_room_, false)) return;
  if (HibernateOne(SteadyTime::InfiniteFuture(), kForOthers) !=
      Room::kStoreFailed) {
    return;
  }
  const MutexLock lock(shelf_.mutex);
  if (shelf_.waiting.empty()) return;
  shelf_.waiting.begin()->second.work = [failed = saver_.failure()](Session&) {
    return failed;
  };
  EndFirstWait();
}

void KeeperThread::DoJob() {
  Job job;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.jobs.empty()) return;
    job = shelf_.jobs.TakeNext();
  }
  MayPark("SessionKeeper::DoJob");
  Session& session = *job.session;
  absl::Status status;
  if (job.rest == nullptr) {
    status = Begin(job);
    job.rest = std::exchange(rest_, nullptr);
  }
  if (job.rest != nullptr) {
    std::optional<absl::Status> end = job.rest();
    if (!end.has_value()) {
      const MutexLock lock(shelf_.mutex);
      shelf_.jobs.PutBack(std::move(job));
      return;
    }
    status = *std::move(end);
  }
  KeepIfDue(session);
  const auto snapshot = saver_.TakeIfDue(session);
  // Whoever ordered it may be about to let go of the session, and to end.
  job.work = nullptr;
  job.rest = nullptr;
  returned_(session, std::move(status));
  // This thread alone destroys sessions.
  if (snapshot.has_value()) (void)saver_.Put(session, *snapshot);
}

// All of the job but what GoOnWith was told.
absl::Status KeeperThread::Begin(Job& job) {
  Session& session = *job.session;
  absl::Status status = FillSlot(session);
  // What it absorbs again then comes before any work.
  if (status.ok() && !job.work) undo_.RetryIfDue(session);
  // Nothing may be answered about a session of which the log lacks a part; one
  // that is not finite has nothing that should be there.
  if (status.ok() && !health_.IsNoted(session)) status = saver_.Mend(session);
  if (status.ok() && job.work) status = job.work(session);
  if (job.waited) parts_.metrics.Woken(parts_.clock.Now() - job.ordered);
  return status;
}

// A copy of its state is kept, in the place of the oldest one if need be.
void KeeperThread::KeepIfDue(Session& session) {
  {
    const MutexLock lock(shelf_.mutex);
    if (!std::exchange(session.keep_due, false)) return;
  }
  if (session.tail != nullptr || !session.state.in_memory() ||
      !health_.Examine(session)) {
    return;
  }
  std::shared_ptr<SessionState> oldest;
  if (session.kept.size() == parts_.layout.snapshots()) {
    const MutexLock lock(shelf_.mutex);
    oldest = std::move(session.kept.front());
    session.kept.erase(session.kept.begin());
  }
  // Its slot is the next one's.
  oldest.reset();
  auto copy = CopyOf(session.state, session.state.context_cap());
  if (!copy.ok()) return;
  const MutexLock lock(shelf_.mutex);
  session.kept.push_back(*std::move(copy));
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

// The slot that it was given is another one's.
void KeeperThread::LeaveSlot(Session& session) {
  StateLease unused;
  const MutexLock lock(shelf_.mutex);
  unused = session.state.Leave();
  shelf_.slot_may_come = true;
}

absl::Status KeeperThread::LoadSlot(Session& session) {
  absl::Status status = CheckTail(session);
  bool other_numerics = false;
  std::unique_ptr<LogTail> tail;
  if (status.ok()) {
    auto loaded =
        parts_.archive->Load(session.uid, session.stored_tail, session.state);
    status = loaded.status();
    if (loaded.ok()) {
      other_numerics = loaded->other_numerics;
      tail = std::move(loaded->tail);
    }
  }
  if (status.ok() && tail == nullptr &&
      session.state.position() != session.position) {
    status = WrongPosition(session.state.position(), session.position);
  }
  // Not under the lock: it takes as long as copying the state.
  const bool finite = status.ok() && health_.IsStateFinite(session.state);
  if (!status.ok()) {
    LeaveSlot(session);
    saver_.NoteUnusable(session.key(), session.uid, status);
    return status;
  }
  const MutexLock lock(shelf_.mutex);
  session.state.Arrive();
  shelf_.SetUnusable(session, Unusable::kNo);
  if (session.snapshot_drops && session.state.position() > 0) {
    session.state.records().DropUnfinished();
  }
  session.snapshot_finite = finite;
  if (!finite) {
    session.health = Health::kNotFinite;
  } else if (session.health == Health::kNotFinite) {
    session.health = Health::kSound;
  }
  session.tail = std::move(tail);
  if (session.tail == nullptr) {
    session.repeatable_from = session.state.repeatable_from();
  } else {
    session.log.replay = absl::ZeroDuration();  // it begins anew
  }
  const bool absorbed_any =
      session.tail != nullptr || session.state.position() > 0;
  session.other_numerics =
      absorbed_any && (session.other_numerics || other_numerics ||
                       parts_.archive->IsOfOtherNumerics(session.stored_tail));
  session.NoteRecords();
  shelf_.Note(SessionEventKind::kWoken, session, parts_.clock.WallNow());
  return status;
}

// May what the session has absorbed since its snapshot be absorbed again?
absl::Status KeeperThread::CheckTail(const Session& session) const {
  STEADYSTATE_RETURN_IF_ERROR(shelf_.CheckHolds(session.position));
  STEADYSTATE_RETURN_IF_ERROR(
      CheckCapReaches(session.state.context_cap(), session.position));
  if (!session.stored_tail.has_value()) return absl::OkStatus();
  if (session.stored_tail->damaged) {
    return MakeError(ErrorReason::kSnapshotCorrupt,
                     absl::StrCat("a part of what session '", session.id,
                                  "' has absorbed is missing in the store's "
                                  "log; delete the session"),
                     {{"what", "log"}});
  }
  if (parts_.allow_other_numerics ||
      !parts_.archive->NeedsOtherNumerics(session.stored_tail)) {
    return absl::OkStatus();
  }
  return MakeError(
      ErrorReason::kNumericsMismatch,
      absl::StrCat("session '", session.id,
                   "' was advanced by a server that computes other bits (of "
                   "another version, on another CPU, or with another "
                   "--weight_dtype, for instance) and that was killed: start "
                   "that one once more, let it compute the session "
                   "(`steadystate session get ",
                   session.id,
                   " --norms`), and stop it by SIGTERM; or start this one "
                   "with --allow_other_numerics"),
      {{"session", session.id}});
}

// The same for a copy that waits for the thread. False if there was none.
bool KeeperThread::FillOne() {
  Session* unfilled = nullptr;
  {
    const MutexLock lock(shelf_.mutex);
    unfilled = shelf_.jobs.Find([](const Job& job) {
      const SessionState& state = job.session->state;
      return state.has_slot() && state.origin() != nullptr;
    });
  }
  if (unfilled == nullptr) return false;
  return FillSlot(*unfilled).ok();
}

// One slot at a time, so that nobody waits long for what else the thread does.
// False if there was none.
bool KeeperThread::ClearOne() {
  std::vector<std::unique_ptr<Session>> ended;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.ended.empty()) return false;
    bool cheap = true;
    while (cheap && !shelf_.ended.empty() && ended.size() < kEndedAtOnce) {
      ended.push_back(std::move(shelf_.ended.back()));
      shelf_.ended.pop_back();
      const Session& last = *ended.back();
      cheap = !last.state.frees_slot() && last.kept.empty();
    }
  }
  MayPark("SessionKeeper::ClearOne");
  return true;
}

absl::StatusOr<std::shared_ptr<SessionState>> KeeperThread::CopyOf(
    const SessionState& state, uint64_t context_cap) {
  auto copy = NewState(context_cap);
  if (copy.ok()) (*copy)->CopyFrom(state);
  return copy;
}

absl::StatusOr<std::shared_ptr<SessionState>> KeeperThread::CopyOf(
    const WayBack& way, uint64_t context_cap) {
  if (way.begin == 0) return nullptr;
  auto copy = NewState(context_cap);
  if (copy.ok()) {
    STEADYSTATE_RETURN_IF_ERROR(past_.Restore(way, **copy));
  }
  return copy;
}

// At position 0, with a slot.
absl::StatusOr<std::shared_ptr<SessionState>> KeeperThread::NewState(
    uint64_t context_cap) {
  STEADYSTATE_ASSIGN_OR_RETURN(StateLease slot, NewSlot(context_cap));
  auto state = std::make_shared<SessionState>(parts_.layout, std::move(slot));
  state->set_context_cap(context_cap);
  return state;
}

absl::StatusOr<StateLease> KeeperThread::NewSlot(uint64_t context_cap) {
  const uint64_t bytes = parts_.layout.lease_bytes(context_cap);
  while (true) {
    absl::StatusOr<StateLease> lease = parts_.pool.Allocate(bytes);
    if (lease.ok()) return lease;
    STEADYSTATE_ASSIGN_OR_RETURN(const bool freed, FreeSome());
    if (!freed) return lease.status();
  }
}

absl::StatusOr<bool> KeeperThread::FreeSome() {
  if (ClearOne() || FillOne()) return true;
  // Without a store what is charged has a slot by now, and those that have one
  // need no other one's.
  if (parts_.archive == nullptr) return false;
  const Room room = HibernateOne(SteadyTime::InfiniteFuture(), kForOthers);
  if (room == Room::kStoreFailed) return saver_.failure();
  return room != Room::kNone;
}

// What has been ordered for the session while its state was in memory, if
// anything has, waits for a slot like others.
void KeeperThread::WaitAgain(Session& session) {
  std::optional<Job> job = shelf_.jobs.Take(session);
  if (!job.has_value()) return;
  job->waited = true;
  session.job = ++shelf_.last_job;
  shelf_.waiting.emplace(*session.job, *std::move(job));
}

// While the store fails, when it may be tried again, or there is no time left.
bool KeeperThread::MaySweep() const {
  return shelf_.sweep.has_value() && (!sweeping_ || saver_.MayStore() ||
                                      parts_.clock.Now() >= *shelf_.sweep);
}

// What becomes of a session that is not in the store at the end.
void KeeperThread::Tell(const SessionSaver::Unsaved& unsaved) {
  std::string next = "it is lost";
  if (unsaved.logged) {
    next = "it is as it was answered last, from the log";
  } else if (unsaved.stored.has_value()) {
    next = absl::StrCat("it is what it was at position ", *unsaved.stored);
  }
  LogError("session not stored",
           {{"session", unsaved.id}, {"at_the_next_start", next}});
}

void KeeperThread::SweepIfDue() {
  SteadyTime deadline;
  {
    const MutexLock lock(shelf_.mutex);
    if (!MaySweep()) return;
    deadline = *shelf_.sweep;
  }
  // It may work by now, and there may be no other time to see.
  if (!std::exchange(sweeping_, true)) saver_.ForgetFailure();
  const SessionSaver::Swept swept = saver_.Sweep(deadline);
  if (swept.store_failed && parts_.clock.Now() < deadline) return;
  sweeping_ = false;
  const MutexLock lock(shelf_.mutex);
  shelf_.not_swept = swept.left;
  for (const SessionSaver::Unsaved& unsaved : swept.some) Tell(unsaved);
  shelf_.sweep.reset();
  shelf_.done.SignalAll();
}

}  // namespace steadystate
