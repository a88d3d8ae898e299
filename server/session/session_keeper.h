#ifndef STEADYSTATE_SERVER_SESSION_SESSION_KEEPER_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/session/session.h"
#include "server/session/session_info.h"
#include "server/session/session_state.h"
#include "server/session/session_table.h"
#include "server/session/snapshot.h"
#include "server/session/state_pool.h"

namespace steadystate {

// Owns the sessions: which there are, what they are charged, when they expire,
// and the memory of their states. What takes long is done by a thread of its
// own: clearing memory that is given back, and work on a session's state that
// is ordered of it. No call waits for that.
//
// A session is charged from its creation to its end, and there are never more
// than the budget holds. Its slot may come later: while the slots that are free
// by that count are still being cleared, a new session has none (SessionTier),
// and gets one, in order of arrival, when its first step asks for it.
//
// The engine holds mutex() while it looks for sessions and says what becomes of
// them; a session that it uses stays until it lets go of it, also when it is
// deleted meanwhile. All other calls are thread-safe.
//
// Lock order: the engine's mutex, mutex(), the pool's, those within Metrics.
class SessionKeeper {
 public:
  struct Limits {
    uint64_t memory_bytes = 0;  // what all sessions may be charged
    absl::Duration default_ttl;
    size_t max_expired_remembered = 0;
  };

  // Work on a session whose state nobody else touches meanwhile.
  using Work = std::function<absl::Status(Session&)>;
  // What was ordered for the session is done, and how it went. Called by the
  // keeper's thread, which holds no lock.
  using Returned = std::function<void(Session&, absl::Status)>;

  // REQUIRES: the limits are valid. The layout, clock and metrics outlive the
  // keeper.
  SessionKeeper(const Limits& limits, const SessionLayout& layout,
                const Clock& clock, Metrics& metrics, Returned returned);
  // REQUIRES: no session is in use.
  ~SessionKeeper();

  // INVALID_ARGUMENT, SESSION_ALREADY_EXISTS, STATE_BUDGET_EXHAUSTED with a
  // retry hint.
  absl::StatusOr<SessionInfo> Create(const SessionOptions& options);
  // SESSION_NOT_FOUND, SESSION_EXPIRED.
  absl::StatusOr<SessionInfo> Get(const SessionKey& key);
  // The owner's. INVALID_ARGUMENT, INVALID_PAGE_TOKEN.
  absl::StatusOr<SessionPage> List(absl::string_view owner, size_t page_size,
                                   absl::string_view page_token);

  // Guards all below.
  Mutex& mutex() ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // SESSION_NOT_FOUND, SESSION_EXPIRED.
  absl::StatusOr<Session*> Find(const SessionKey& key, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Says that Find will be asked for the session soon.
  void WillFind(const SessionKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    table_.WillFind(key);
  }

  // A session that nobody can name, in use; it ends when it is let go of.
  // STATE_BUDGET_EXHAUSTED with a retry hint.
  absl::StatusOr<Session*> CreateUnlisted(const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Makes a session unreachable for clients. A session in use is returned and
  // ends when the engine lets go of it; any other ends at once: null.
  // SESSION_NOT_FOUND, SESSION_EXPIRED.
  absl::StatusOr<Session*> Delete(const SessionKey& key, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Has requests from now on: it does not expire. REQUIRES: it is idle.
  void Use(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has none any more: its ttl begins, or it ends. REQUIRES: it is in use, and
  // nothing is ordered for it.
  void LetGo(Session& session, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Its state has absorbed something. REQUIRES: it is in use.
  void Advanced(Session& session, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Brings the session's state into memory, if it is not there, and lets the
  // keeper's thread do `work` on it, if there is any. From now on the session's
  // state is the thread's, until `returned` is told that it is done.
  // REQUIRES: it is in use, and nothing is ordered for it.
  void Order(Session& session, Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Creates sessions that are copies of `parent`: all of them, or none. Each is
  // charged now, and gets memory of its own when its first step comes; until
  // then one copy serves all of them. Called by Work on the parent, without
  // mutex(). Errors as of Create.
  absl::StatusOr<Forks> Fork(const Session& parent, const ForkOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The session as a snapshot has it. Called by Work on it, without mutex().
  SessionCard CardOf(const Session& session) ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes a session that nobody can name one like others, what it has absorbed
  // included. It stays in use. Called by Work on it, without mutex(). Errors as
  // of Create, but for the budget: then it stays what it was.
  absl::StatusOr<SessionInfo> Enlist(Session& session,
                                     const SessionOptions& options)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Sessions that are in use and can be named.
  size_t active() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return table_.active();
  }
  void UpdateGauges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  struct Job {
    Session* session = nullptr;
    Work work;
  };

  // Counts one more session; an empty lease if its slot comes later.
  absl::StatusOr<StateLease> Charge(const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<StateLease> LeaseForOneMore()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // With the retry hint.
  absl::Status Refused(const absl::Status& no_room, const Moment& now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFree(absl::string_view owner,
                         absl::Span<const std::string> ids) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts so many more; fills in what the parent decides. OK or none.
  absl::Status ReserveForks(const Session& parent, size_t count,
                            absl::Span<const std::string> ids,
                            const Moment& now, SessionOptions& each)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<SessionState>> CopyOf(
      const SessionState& state) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddFork(const Session& parent, SessionOptions options,
               std::shared_ptr<SessionState> origin, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(std::unique_ptr<Session> session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::unique_ptr<Session> TakeUnlisted(Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Session& KeepUnlisted(std::unique_ptr<Session> session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MoreExpiryMayMakeRoom(size_t sessions, const Moment& now)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EndExpired(const Moment& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void Loop();
  void WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BringWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void DoJob();
  void FillSlot(Session& session) ABSL_LOCKS_EXCLUDED(mutex_);
  bool FillOne() ABSL_LOCKS_EXCLUDED(mutex_);
  bool ClearOne();

  const SessionLayout& layout_;
  const Clock& clock_;
  Metrics& metrics_;
  const Returned returned_;
  StatePool pool_;  // self-synchronised

  Mutex mutex_;
  CondVar wake_;
  SessionTable table_ ABSL_GUARDED_BY(mutex_);
  // In use, and held by no table (any more).
  std::vector<std::unique_ptr<Session>> unlisted_ ABSL_GUARDED_BY(mutex_);
  size_t charged_ ABSL_GUARDED_BY(mutex_) = 0;  // sessions
  // For the thread.
  std::vector<std::unique_ptr<Session>> ended_ ABSL_GUARDED_BY(mutex_);
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);  // for a slot
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_KEEPER_H_
