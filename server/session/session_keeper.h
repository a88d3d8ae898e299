#ifndef STEADYSTATE_SERVER_SESSION_SESSION_KEEPER_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_KEEPER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/session/journal.h"
#include "server/session/keeper_thread.h"
#include "server/session/session.h"
#include "server/session/session_archive.h"
#include "server/session/session_info.h"
#include "server/session/session_limits.h"
#include "server/session/session_state.h"
#include "server/session/shelf.h"
#include "server/session/state_pool.h"

namespace steadystate {

// Owns the sessions: which there are, what they are charged, when they expire,
// and the memory of their states. What takes long is done by KeeperThread:
// clearing memory that is given back, work on states that is ordered of it,
// moving states to the store and back. No call waits for that.
//
// Without a store a session is charged memory from its creation to its end. Its
// slot may come later, in order of arrival, when its first step asks for it:
// those that are free by that count may not have been cleared yet.
// With a store sessions that can be named are charged what they take there, and
// leave memory when they are idle; steps wait for a slot in order of arrival.
// The engine holds mutex() while it looks for sessions and says what becomes of
// them; a session that it uses stays until it lets go of it, also when it is
// deleted meanwhile. All other calls are thread-safe.
//
// Lock order: the engine's mutex, mutex(), the pool's, those within Metrics.
class SessionKeeper {
 public:
  using Work = Job::Work;
  using Returned = KeeperThread::Returned;
  using Created = std::function<void(absl::StatusOr<SessionInfo>)>;

  // REQUIRES: valid limits. The others outlive it. `archive`: or null.
  SessionKeeper(const SessionLimits& limits, const SessionLayout& layout,
                SessionArchive* archive, const Clock& clock, Metrics& metrics,
                Returned returned, KeeperThread::Due due = nullptr);
  // REQUIRES: no session is in use.
  ~SessionKeeper();

  // Takes up the sessions that the store has, once, before all else. Those
  // expire whose ttl has passed since they were stored, by the time of day.
  absl::Status TakeUpStored();
  // As Engine::StoreSessions. REQUIRES: there is a store.
  std::optional<size_t> StoreAll(absl::Duration timeout);

  // INVALID_ARGUMENT, SESSION_ALREADY_EXISTS, STATE_BUDGET_EXHAUSTED and
  // STORE_UNAVAILABLE with a retry hint, NO_STORE. If the session is logged,
  // `created` is taken, unless it is null, and told by the journal's thread
  // when the log has it, or that it was not created after all.
  absl::StatusOr<SessionInfo> Create(const SessionOptions& options,
                                     Created* created = nullptr);
  absl::StatusOr<SessionInfo> Get(const SessionKey& key);
  absl::StatusOr<SessionPage> List(const SessionQuery& query, size_t page_size,
                                   absl::string_view page_token);

  // As Engine::HibernateSession; `hibernated` is called by the keeper's thread.
  absl::Status Hibernate(const SessionKey& key, Shelf::Hibernated hibernated);
  // Tells those whose turn has not come why not.
  void GiveUpHibernations(const absl::Status& why);
  SessionEvents& events() { return shelf_.events; }
  Mutex& mutex() ABSL_LOCK_RETURNED(shelf_.mutex) { return shelf_.mutex; }
  // It guards all below. SESSION_NOT_FOUND, SESSION_EXPIRED.
  absl::StatusOr<Session*> Find(const SessionKey& key, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Says that Find will be asked for the session soon.
  void WillFind(const SessionKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    shelf_.table.WillFind(key);
  }
  // As Create. Without `created` its first request is told what fails later.
  absl::StatusOr<Session*> CreateNow(const SessionOptions& options,
                                     const Moment& now,
                                     Created* created = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // One that nobody can name, in use, until it is let go of; its cap is as near
  // to that asked for as can be. STATE_BUDGET_EXHAUSTED with a retry hint.
  absl::StatusOr<Session*> CreateUnlisted(const Moment& now,
                                          std::optional<uint64_t> cap = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // The stream's session (Session::stream) of that name, or null.
  // SESSION_ALREADY_EXISTS, and, where it is made, STATE_BUDGET_EXHAUSTED.
  absl::StatusOr<Session*> FindEphemeral(const SessionKey& key, uint64_t stream,
                                         const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  absl::StatusOr<Session*> CreateEphemeral(const SessionKey& key,
                                           uint64_t stream, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  std::vector<Session*> OfStream(uint64_t stream, size_t most) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    return shelf_.table.OfStream(stream, most);
  }

  // Nobody finds the session any more. True if it is in use: it ends when the
  // engine lets go of it; any other ends at once. If the store may have it,
  // `removed` is taken, and told by another thread whether it will come back.
  bool Delete(Session& session, const Moment& now, Shelf::Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // The same of one that was deleted before, if the store may have it still.
  bool JoinDeletion(const SessionKey& key, Shelf::Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Has requests from now on: it does not expire. REQUIRES: it is idle.
  void Use(Session& session, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Has none any more: its ttl begins, or it ends. REQUIRES: it is in use, and
  // nothing is ordered for it.
  void LetGo(Session& session, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Its state has absorbed something. REQUIRES: it is in use.
  void Advanced(Session& session, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Its requests wait for their client: until GoOn the state may leave memory,
  // as an idle session's. False: it cannot, having no place in a store.
  // REQUIRES: it is in use, and nothing is ordered for it.
  bool Pause(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Its state is wanted again; see IsReady.
  void GoOn(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    session.paused = false;
  }
  // Somebody waits for a slot, and none is free.
  bool AwaitsSlot() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    return shelf_.stores && !shelf_.waiting.empty() &&
           shelf_.waiting.begin()->second.found_none;
  }
  // Can its state be advanced? Else it has to come into memory, or be saved.
  static bool IsReady(const Session& session) {
    return session.state.in_memory() && !session.moving && !session.keep_due &&
           (!session.log.broken || session.tail != nullptr) &&
           !session.log.snapshot_due;
  }
  // All of Session::tail has been absorbed.
  void Replayed(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void DropHeld(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    shelf_.DropHeld(session);
  }
  // STORE_UNAVAILABLE: what it does cannot be written down now.
  absl::Status LogHealth(const Session& session) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // As Journal::Add; Logged names whom the round tells of. REQUIRES: a store.
  uint64_t AddRound(std::string content, Journal::Sync sync,
                    Journal::Written written)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void Logged(Session& session, uint64_t round, absl::Duration replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  uint64_t numerics_tag() const { return archive_->numerics_tag(); }  // for it

  // Brings its state into memory, if it is not there, and lets the keeper's
  // thread do `work`, if any: it has the state until `returned` is told.
  // Clients take turns, `client` for this. REQUIRES: as Pause.
  void Order(Session& session, Work work, uint64_t client = 0)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Takes back what waits for a slot; it is not returned. False: too late.
  bool Withdraw(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  // Makes copies of `parent` as it was at `position`, all of them or none. They
  // are charged now; till their first steps want memory one copy serves all.
  // For Work on it, without mutex(), which is not done when this returns: they
  // are found when those that the store has to have first are there; that may
  // fail with STORE_UNAVAILABLE. Errors of Create and SessionPast::Find.
  absl::StatusOr<Forks> Fork(Session& parent, const ForkOptions& options,
                             uint64_t position, absl::string_view text)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // Takes the session where `find` says; called by Work on it, without mutex().
  using FindWay = std::function<absl::StatusOr<WayBack>(SessionPast&)>;
  absl::StatusOr<SessionInfo> Rewind(Session& session, const FindWay& find)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // Changes what its client may choose, also in the store; called likewise. An
  // error (INVALID_ARGUMENT, STATE_BUDGET_EXHAUSTED, ...) leaves all as it was.
  absl::StatusOr<SessionInfo> Update(Session& session,
                                     const SessionChanges& changes)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // Gives one without a name the cap that is asked for, or that a snapshot has,
  // if that is not 0. The same.
  absl::Status GiveCap(Session& session, std::optional<uint64_t> asked,
                       uint64_t of_snapshot, uint64_t position)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  uint64_t most_context_cap() const { return shelf_.MostContextCap(); }
  size_t slots() const { return pool_.capacity(); }           // that memory has
  SessionPrefixes& prefixes() { return thread_.prefixes(); }  // for it, too
  SessionHealth& health() { return thread_.health(); }
  SessionUndo& undo() { return thread_.undo(); }
  // As a snapshot has it. Called by Work on it, without mutex().
  SessionCard CardOf(const Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  // Makes a session that nobody can name one like others, with what it has
  // absorbed; `how` is told. It stays in use. Called by Work on it, without
  // mutex(). Errors as of Create, but for the budget: then it stays as it was.
  absl::StatusOr<SessionInfo> Enlist(Session& session,
                                     const SessionOptions& options,
                                     SessionEventKind how)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // Sessions that are in use and can be named.
  size_t active() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    return shelf_.table.active();
  }
  void UpdateGauges() ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex) {
    shelf_.UpdateGauges();
  }

 private:
  absl::StatusOr<WayBack> WayTo(Session& parent, uint64_t position,
                                absl::string_view text)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  class NewForks;
  void Undo(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  absl::StatusOr<Durability> DurabilityOf(std::optional<Durability> asked,
                                          Durability otherwise) const;
  void LogCreated(Session& session, const SessionInfo& info, Created* created)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void TakeUp(StoredSession stored, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shelf_.mutex);
  void TellUnusable() ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  const SessionLayout& layout_;
  SessionArchive* const archive_;
  const Durability default_durability_;
  const absl::Duration log_sync_interval_;
  const absl::Duration max_replay_;
  const bool allow_other_numerics_;
  SteadyTime next_snapshot_ = SteadyTime::InfinitePast();  // see Logged
  const Clock& clock_;
  Metrics& metrics_;
  StatePool pool_;  // self-synchronised
  Shelf shelf_;
  std::optional<Journal> journal_;  // with a store that has been read
  KeeperThread thread_;             // last: it uses all of the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_KEEPER_H_
