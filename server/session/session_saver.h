#ifndef STEADYSTATE_SERVER_SESSION_SESSION_SAVER_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_SAVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/session/log_recovery.h"
#include "server/session/session.h"
#include "server/session/session_archive.h"
#include "server/session/session_health.h"
#include "server/session/shelf.h"

namespace steadystate {

// Writes sessions down as snapshots, and leaves the store alone for a while
// when it has failed. Of KeeperThread; confined to that thread.
class SessionSaver {
 public:
  // All outlive it. `archive`: null without a store, and then nothing is saved.
  // `undo`: tries once more what is to be undone of a session.
  SessionSaver(Shelf& shelf, SessionArchive* archive, SessionHealth& health,
               const Clock& clock, std::function<void(Session&)> undo)
      : shelf_(shelf),
        archive_(archive),
        health_(health),
        clock_(clock),
        undo_(std::move(undo)) {}

  SessionHealth& health() { return health_; }

  // There is a store, and it is not left alone.
  bool MayStore() const;
  void NoteFailure(const absl::Status& failure);
  // The store is tried again at once.
  void ForgetFailure() { retry_ = SteadyTime::InfinitePast(); }
  // The last one.
  const absl::Status& failure() const { return failure_; }

  // The session could not be read from the store because of an error. If
  // another try does not cure that, says so, once; and lets nobody wait for
  // more of one to be stored that is damaged.
  void NoteUnusable(const SessionKey& key, const SessionUid& uid,
                    const absl::Status& why) ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  // Puts the session into the store, unless the store has it as it is. A state
  // that is not finite takes no other one's place: where the store, or the log,
  // has anything of the session, that is what is there afterwards.
  // REQUIRES: the thread has its state.
  absl::Status Save(Session& session);
  // Lets the store have a snapshot of what the session is now.
  absl::Status SaveState(Session& session);
  // What the store and the log have of it, up to a position.
  absl::StatusOr<RecoveredSession> Recover(const Session& session,
                                           uint64_t until);
  // If the log lacks a part of it: saves it, safe from a loss of power, so that
  // the log can go on from there.
  absl::Status Mend(Session& session);
  // The same for one that is idle, if there is one. True if that was done.
  bool MendIdle();

  // The same in two parts: whoever has the state need not wait for the second.
  // A session that is deleted in between is removed from the store afterwards.
  struct Snapshot {
    StoredSession form;
    std::string bytes;
    std::string tail;  // what follows in the store; empty: nothing
    SteadyTime start;
    SteadyTime last_step;
    SteadyTime used;  // until when that says that the session was in use
    absl::Duration replay;
    bool finite = true;  // as far as is known
  };
  absl::StatusOr<Snapshot> Take(Session& session);
  // The same without the bytes: the session may be put into the store now.
  Snapshot Describe(Session& session);
  enum class Safety : uint8_t { kFromKill, kFromLossOfPower };
  absl::Status Put(Session& session, const Snapshot& snapshot,
                   Safety safety = Safety::kFromKill);
  // Sessions that were put there in the making are there, all of them or none.
  absl::Status PutMade(std::span<const std::unique_ptr<Session>> sessions);
  // Nothing unless a snapshot of it is due.
  std::optional<Snapshot> TakeIfDue(Session& session);

  struct Unsaved {
    std::string id;
    bool logged = false;             // what was answered is in the log
    std::optional<uint64_t> stored;  // the position that the store has
  };
  // Saves all sessions that are idle, until the deadline.
  struct Swept {
    // That the store does not have as they are; damaged ones do not count,
    // which are left as they lie there.
    size_t left = 0;
    std::vector<Unsaved> some;  // of them
    bool store_failed = false;  // so there may be fewer after another try
  };
  Swept Sweep(SteadyTime deadline);

  // Removes rounds from the log that nobody needs. Where it has grown too long
  // a snapshot is taken of the session that needs the oldest one; if that is in
  // use it is `due`, which is told of it. True if there may be more to do.
  bool TrimLog(const std::function<void(Session&)>& due);

 private:
  // Of a session whose state the store has as it is, and memory has not: when
  // it was used last, which a request changes that ended before the state was
  // in memory, or that took the session back. DATA_LOSS: NoteUnusable.
  absl::Status SaveLastUse(Session& session, Safety safety = Safety::kFromKill);
  // What the store lacks of it.
  absl::Status SaveLacking(Session& session);
  static bool LiesInStore(const Session& session);
  static void DescribeSnapshot(const Session& session, StoredSession& to);
  bool HasAsItIs(const Session& session) const
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  bool HasSome(const Session& session) const ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  Snapshot TakeState(Session& session);
  absl::StatusOr<Snapshot> TakeStored(Session& session);
  StoredTail TailOf(const Session& session, const RecoveredSession& found);
  bool SaveOldest(const std::function<void(Session&)>& due);
  static void NoteUnsaved(const Session& session, Swept& swept);

  Shelf& shelf_;
  SessionArchive* const archive_;
  SessionHealth& health_;
  const Clock& clock_;
  const std::function<void(Session&)> undo_;
  // The store has failed: it is left alone until then.
  SteadyTime retry_ = SteadyTime::InfinitePast();
  absl::Status failure_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_SAVER_H_
