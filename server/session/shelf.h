#ifndef STEADYSTATE_SERVER_SESSION_SHELF_H_
#define STEADYSTATE_SERVER_SESSION_SHELF_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/session/charges.h"
#include "server/session/job_queue.h"
#include "server/session/log_book.h"
#include "server/session/prefix.h"
#include "server/session/removals.h"
#include "server/session/session.h"
#include "server/session/session_archive.h"
#include "server/session/session_events.h"
#include "server/session/session_id.h"
#include "server/session/session_limits.h"
#include "server/session/session_table.h"
#include "server/session/state_pool.h"

namespace steadystate {

class Journal;

// What SessionKeeper and its thread share: the sessions, and notes of what the
// thread has to do. The lock is held for microseconds.
struct Shelf {
  using Removed = Removals::Removed;
  // Its state is in the store only, or why not.
  using Hibernated = std::function<void(const absl::Status&)>;

  struct Bedtime {
    std::string owner;
    std::string id;
    Hibernated hibernated;
  };

  Shelf(SessionTable sessions, const SessionLayout& layout_of_all,
        StatePool& slots, const SessionArchive* store,
        const SessionLimits& limits_of_all, Metrics& counters);

  // The cap of a session, if one is asked for or not. INVALID_ARGUMENT.
  absl::StatusOr<uint64_t> CapOf(std::optional<uint64_t> asked,
                                 uint64_t otherwise) const;
  // The largest: what memory has room for.
  uint64_t MostContextCap() const;
  // That of a session which was stored, or exported, at `position`, whatever
  // this server can give; 0, or one that it is beyond: that is not known.
  uint64_t CapOfStored(uint64_t context_cap, uint64_t position) const;
  // CONTEXT_CAP_REACHED, with the flag to raise: no session of this server can
  // be at that position.
  absl::Status CheckHolds(uint64_t position) const;
  absl::string_view BoundOfCaps() const;  // the flag that bounds them

  // What a session of this cap is charged: what it takes when it is full.
  uint64_t ChargeOf(Tier tier, uint64_t context_cap) const {
    return tier == Tier::kMemory ? layout.charge_bytes(context_cap)
                                 : archive->bytes_at(context_cap);
  }
  // And one that never advances, which has a slot like others.
  uint64_t ChargeOfKept(Tier tier, uint64_t cap, uint64_t position) const {
    return ChargeOf(tier, tier == Tier::kMemory ? cap : position);
  }
  // Charges for so many, bytes each; what is kept of prompts gives way.
  // STATE_BUDGET_EXHAUSTED, with a retry hint.
  absl::Status Charge(Tier tier, uint64_t each, size_t sessions,
                      const Moment& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Status Refused(Tier tier, uint64_t bytes, const Moment& now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // A session's charge, and in memory its slot; none if that comes later.
  struct ChargedSlot {
    uint64_t bytes = 0;
    StateLease lease{};
  };
  absl::StatusOr<ChargedSlot> ChargeOne(Tier tier, uint64_t context_cap,
                                        const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Gives a session another cap, and charges it for that. False, and nothing
  // has changed, where others have to leave memory first; the same errors.
  // REQUIRES: its state is at rest, and not beyond it.
  absl::StatusOr<bool> Resize(Session& session, uint64_t context_cap,
                              const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Gives one that the store has, with this id and cap, as much of that as
  // there may be, and charges for it, whether there is room or not.
  void TakeUp(Session& session, absl::string_view id, uint64_t context_cap)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // It is to have that cap, and has what of it there may be.
  void NoteAskedCap(Session& session, uint64_t context_cap) const {
    session.asked_cap = context_cap > MostContextCap() ? context_cap : 0;
  }
  // Has been charged so.
  static void NoteCharge(Session& session, Tier tier, uint64_t bytes) {
    session.charged = tier;
    session.charge = bytes;
  }
  // With a store: may a session be in memory that cannot leave it, and takes so
  // much, so that others find room to wake in?
  bool LeavesRoom(uint64_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return charges.used(Tier::kMemory) + bytes <=
           charges.most(Tier::kMemory) / 2;
  }
  // What sessions that can be named are charged for.
  Tier listed_tier() const { return stores ? Tier::kStore : Tier::kMemory; }

  // The session belongs to nobody any more: the thread destroys it.
  void End(std::unique_ptr<Session> session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Why a session leaves the store.
  enum class Why : uint8_t {
    kDeleted,  // if that fails its name is nobody else's until it succeeds
    kUndone,   // nobody has been told of it
    kOver,     // by itself, as the next process would find, too
  };
  // Lets the thread take it out of the store, if it may be there, and then call
  // `removed`. False if it is not there: `removed` is the caller's still.
  bool RemoveStored(const Session& session, Why why, Removed& removed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The same where nobody asks.
  void RemoveStored(const Session& session, Why why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    Removed nobody_asks;
    RemoveStored(session, why, nobody_asks);
  }
  // One of those that wait for a slot may get one.
  void NoteSlotMayCome() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (waiting.empty()) return;
    slot_may_come = true;
    wake.SignalOne();
  }
  // The session is in use, or was until now, and its ttl begins anew: has the
  // log say so, unless the store or the log has a word of it of late.
  void NoteUse(Session& session, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Takes out some of the sessions that have expired.
  void EndExpired(const Moment& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The same; true if more of that may make room for what is charged so much.
  bool MoreExpiryMayMakeRoom(uint64_t bytes, const Moment& now)
      ABSL_LOCKS_EXCLUDED(mutex);

  // The same for the one of that name, if it has: its name is free then.
  void EndIfExpired(const SessionKey& key, const Moment& now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // What Session::held has is not needed any more.
  void DropHeld(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Tells those who watch sessions, and the metrics, unless nobody can name the
  // session, any more or at all.
  //   parent  what it was made of, SessionEvent's
  void Note(SessionEventKind kind, const Session& session, absl::Time now,
            absl::string_view parent = "") ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // What is kept of prompts by itself gives way to others, and to what is kept
  // later: ends the one that was asked for least lately. False without one.
  bool EndOldestPrefix() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // So many may stay.
  void EndPrefixesAbove(size_t most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // True if one more may be kept and charged so much, once such have given way.
  bool MakeRoomForPrefix(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // A session that was taken out of the table since it had expired.
  void EndTaken(std::unique_ptr<Session> expired, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // A session that no table holds (any more).
  Session& KeepUnlisted(std::unique_ptr<Session> session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::unique_ptr<Session> TakeUnlisted(Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Counts the session among those that lack storing, or not any more: called
  // where that may have changed.
  void CountUnstored(Session& session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Notes whether the session can be used, and counts those that cannot. True
  // if that is new.
  bool SetUnusable(Session& session, Unusable why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Of those like the session.
  size_t& HibernatedLike(const Session& session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return hibernated[static_cast<size_t>(KindOfId(session.id))];
  }
  void UpdateGauges() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const SessionLayout& layout;
  // As SessionLimits.
  const size_t piece_rows;
  const uint64_t prefix_numerics;
  const size_t max_prefixes;

  Mutex mutex;
  CondVar wake;  // the thread: something was noted
  CondVar done;  // a sweep has ended
  SessionTable table ABSL_GUARDED_BY(mutex);
  // In use.
  std::vector<std::unique_ptr<Session>> unlisted ABSL_GUARDED_BY(mutex);
  Charges charges ABSL_GUARDED_BY(mutex);
  // Of the table, by SessionKind.
  std::array<size_t, kSessionKinds> hibernated ABSL_GUARDED_BY(mutex){};
  size_t unstored ABSL_GUARDED_BY(mutex) = 0;  // see CountUnstored
  // By Unusable, of all that have not ended.
  std::array<size_t, kUnusables> unusable ABSL_GUARDED_BY(mutex){};
  LogBook log ABSL_GUARDED_BY(mutex);
  // Where rounds go; null without a store, and before it has been read.
  Journal* journal ABSL_GUARDED_BY(mutex) = nullptr;

  // The notes.
  std::vector<std::unique_ptr<Session>> ended ABSL_GUARDED_BY(mutex);
  // They wait for a slot, in order of arrival. Whether one may be had by now.
  std::map<uint64_t, Job> waiting ABSL_GUARDED_BY(mutex);
  bool slot_may_come ABSL_GUARDED_BY(mutex) = true;
  uint64_t last_job ABSL_GUARDED_BY(mutex) = 0;
  JobQueue jobs ABSL_GUARDED_BY(mutex);
  Removals removals ABSL_GUARDED_BY(mutex);
  std::deque<Bedtime> bedtimes ABSL_GUARDED_BY(mutex);
  // Everything is to be in the store by then; what is not, when that is over.
  std::optional<SteadyTime> sweep ABSL_GUARDED_BY(mutex);
  size_t not_swept ABSL_GUARDED_BY(mutex) = 0;
  bool stopping ABSL_GUARDED_BY(mutex) = false;

  SessionEvents events;                 // self-synchronised
  StatePool& pool;                      // the same
  const SessionArchive* const archive;  // null without a store
  const bool stores;
  Metrics& metrics;
  const size_t max_checkpoints;  // as SessionLimits
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SHELF_H_
