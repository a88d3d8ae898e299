#ifndef STEADYSTATE_SERVER_SESSION_KEEPER_THREAD_H_
#define STEADYSTATE_SERVER_SESSION_KEEPER_THREAD_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/session/job_queue.h"
#include "server/session/session.h"
#include "server/session/session_archive.h"
#include "server/session/session_health.h"
#include "server/session/session_past.h"
#include "server/session/session_prefixes.h"
#include "server/session/session_remover.h"
#include "server/session/session_saver.h"
#include "server/session/session_state.h"
#include "server/session/session_undo.h"
#include "server/session/shelf.h"
#include "server/session/state_pool.h"

namespace steadystate {

// The thread of SessionKeeper, which does what takes long, one thing after the
// other and without the shelf's lock: it gives slots to sessions that ask for
// one, fills them with their states, carries out work on states, moves states
// to the store when their sessions have been idle for long or others need their
// slots, and clears the memory of what has ended.
//
// It alone destroys sessions, so one that it works on stays.
class KeeperThread {
 public:
  // What was ordered for the session is done, and how it went. Called by the
  // thread, which holds no lock.
  using Returned = std::function<void(Session&, absl::Status)>;

  // The session is in use and cannot go on before it has been ordered. The
  // same.
  using Due = std::function<void(Session&)>;

  struct Parts {
    Shelf& shelf;
    const SessionLayout& layout;
    StatePool& pool;
    SessionArchive* archive = nullptr;  // null without a store
    bool allow_other_numerics = false;  // than a log was written under
    const Clock& clock;
    Metrics& metrics;
  };

  // All of it outlives the thread.
  KeeperThread(const Parts& parts, absl::Duration hibernate_after,
               Returned returned, Due due);
  // When all that was ordered is done. REQUIRES: Shelf::stopping.
  ~KeeperThread();

  // A state that others can stand for copies of. Called by Work.
  // STATE_BUDGET_EXHAUSTED: all slots are in use.
  absl::StatusOr<std::shared_ptr<SessionState>> CopyOf(
      const SessionState& state, uint64_t context_cap);
  // The same of what the way leads to, but for its pieces; null if that is
  // position 0.
  absl::StatusOr<std::shared_ptr<SessionState>> CopyOf(const WayBack& way,
                                                       uint64_t context_cap);
  // Makes room in memory: clears what has ended, or moves the session that has
  // been idle longest to the store. False: there is nothing of that. Errors of
  // the store. Called by Work.
  absl::StatusOr<bool> FreeSome();
  // Puts the session into the store. Called by Work.
  absl::Status Save(Session& session) { return saver_.Save(session); }
  absl::Status SaveState(Session& session) { return saver_.SaveState(session); }
  // Of some that it was told to put there in the making. The same.
  absl::Status PutMade(std::span<const std::unique_ptr<Session>> sessions) {
    return saver_.PutMade(sessions);
  }
  // Called by Work: it is not done, `rest` is what is left of it. Others have
  // their turns in between.
  void GoOnWith(Job::Rest rest) { rest_ = std::move(rest); }
  SessionPast& past() { return past_; }
  SessionPrefixes& prefixes() { return prefixes_; }
  SessionHealth& health() { return health_; }
  SessionUndo& undo() { return undo_; }

 private:
  absl::StatusOr<std::shared_ptr<SessionState>> NewState(uint64_t context_cap);
  absl::StatusOr<StateLease> NewSlot(uint64_t context_cap);
  // Why a session leaves memory: others wait for a slot, or it is due.
  enum Reason : uint8_t { kForOthers, kForItself };
  // What became of an attempt to make room in memory.
  enum class Room : uint8_t { kMade, kPerhaps, kNone, kStoreFailed };

  void Loop();
  bool HasWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void BringWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void EndFirstWait() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  bool GiveSlot(Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void MakeRoom();
  void DoJob();
  absl::Status Begin(Job& job);
  void KeepIfDue(Session& session);
  absl::Status FillSlot(Session& session);
  absl::Status LoadSlot(Session& session);
  void LeaveSlot(Session& session);
  absl::Status CheckTail(const Session& session) const;
  bool FillOne();
  bool ClearOne();
  void HibernateIfDue();
  bool HibernateOneAsked();
  Room HibernateOne(SteadyTime idle_since, Reason reason);
  Room MoveOut(Session& session, Reason reason);
  bool Leave(Session& session, Reason reason);
  void WaitAgain(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void SweepIfDue();
  static void Tell(const SessionSaver::Unsaved& unsaved);
  bool MaySweep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);

  const Parts parts_;
  Shelf& shelf_;
  const absl::Duration hibernate_after_;
  const Returned returned_;
  const Due due_;
  bool wants_room_ = false;  // for the first that waits
  Job::Rest rest_;           // see GoOnWith
  SessionHealth health_;
  SessionSaver saver_;
  SessionRemover remover_;
  SessionPast past_;
  SessionUndo undo_;
  SessionPrefixes prefixes_;
  bool sweeping_ = false;        // Shelf::sweep has been seen
  bool log_wants_more_ = false;  // there may be more to do for it at once

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_KEEPER_THREAD_H_
