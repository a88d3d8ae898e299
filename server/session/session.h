#ifndef STEADYSTATE_SERVER_SESSION_SESSION_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/session/log_book.h"
#include "server/session/log_entry.h"
#include "server/session/prefix.h"
#include "server/session/session_id.h"
#include "server/session/session_info.h"
#include "server/session/session_memory.h"
#include "server/session/session_state.h"
#include "server/session/session_store.h"

namespace steadystate {

struct HeldWay;  // session_past.h
struct Lane;

// Can a session go on from its state?
enum class Health : uint8_t {
  kSound,
  kNotFinite,  // no: it has NaN or infinity, or led to some
  // Yes, but that is an earlier one than its clients know of: it was not
  // finite, and left memory. Whoever asks next is told so, once.
  kTakenBack,
};

// What was to be undone since it led to a state that is not finite, and was
// not.
struct PendingUndo {
  uint64_t to = 0;   // the position before that
  std::string text;  // the unfinished text there
  // When to try again: the store failed. Never: nothing leads there.
  SteadyTime retry = SteadyTime::InfiniteFuture();
};

// One session: what it is called, when it ends, and its state. Destroying it
// gives its memory back, which may take milliseconds: not under a lock.
//
// The members above `lane` are guarded by SessionKeeper's mutex, `lane` by the
// engine's. `state` belongs to whoever advances the session while it is active,
// which SessionKeeper's thread does when it has been told to, and to the keeper
// otherwise.
struct Session {
  explicit Session(const SessionLayout& layout) : state(layout) {}

  SteadyTime expire_time() const { return last_step.steady + ttl; }

  SessionKey key() const { return {id, owner}; }

  // Every position from this one up to the session's can be reached again:
  // there is a state to begin with, and what came after it is remembered.
  //   history  how many inputs a session remembers
  uint64_t EarliestPosition(size_t history) const {
    const uint64_t from = std::max(
        repeatable_from, position - std::min(position, uint64_t{history}));
    if (from == 0) return 0;
    uint64_t earliest = position;
    for (const std::shared_ptr<SessionState>& state_then : kept) {
      if (state_then->position() < from) continue;
      earliest = std::min(earliest, state_then->position());
    }
    if (const auto stored_at = FiniteSnapshot();
        stored_at.has_value() && *stored_at >= from) {
      earliest = std::min(earliest, *stored_at);
    }
    return earliest;
  }

  // The position of its snapshot, if it has one that may be gone back to.
  std::optional<uint64_t> FiniteSnapshot() const {
    return snapshot_finite ? snapshot : std::nullopt;
  }

  // When it has absorbed so many more inputs, will there be a way back to
  // where it is now? As EarliestPosition.
  bool KeepsWayBack(uint64_t rows, size_t history) const {
    const uint64_t after = position + rows;
    const uint64_t from =
        std::max(repeatable_from, after - std::min(after, uint64_t{history}));
    const auto leads = [&](uint64_t at) {
      return at <= position && (at >= from || at == position);
    };
    const auto stored_at = FiniteSnapshot();
    return leads(0) || (stored_at.has_value() && leads(*stored_at)) ||
           std::any_of(kept.begin(), kept.end(), [&](const auto& state_then) {
             return leads(state_then->position());
           });
  }

  // Does the store lack something of it, which is to be there at the end?
  // Nearly nothing if it has absorbed nothing.
  bool LacksStoring() const {
    return !state.stored() && durability != Durability::kNone &&
           (stored != position || log.broken ||
            stored_step != last_step.steady);
  }

  // The latest position at which there is a state to begin with.
  uint64_t LatestKept() const {
    uint64_t latest = FiniteSnapshot().value_or(0);
    for (const std::shared_ptr<SessionState>& state_then : kept) {
      latest = std::max(latest, state_then->position());
    }
    return latest;
  }

  // What a store, or a snapshot, says of it.
  SessionCard card() const {
    return {.uid = uid,
            .owner = owner,
            .id = id,
            .labels = labels,
            .ttl = ttl,
            .create_time = created.wall,
            .last_step_time = last_step.wall,
            .context_cap = std::max(asked_cap, state.context_cap())};
  }
  StoredSession ToStored() const {
    return {.card = card(),
            .position = position,
            .other_numerics = other_numerics,
            .durability = durability,
            .round = log.last,
            .repeatable_from = repeatable_from,
            .taken_back = health == Health::kTakenBack,
            .unfinished = in_making,
            .prefix = prefix};
  }

  // Its state has been restored: puts `recorded` right.
  void NoteRecords() {
    recorded = RecordedKeys();
    if (state.position() == 0) return;
    for (const RequestRecord& record : state.records().All()) {
      recorded.Note(RecordedKeys::KeyOf(record.id, record.begin));
    }
  }

  SessionUid uid = NewSessionUid();
  std::string owner;  // of the id: others may use the same one
  std::string id;     // empty: nobody can name it
  Moment created;
  absl::Duration ttl = absl::InfiniteDuration();
  std::map<std::string, std::string> labels;

  uint64_t position = 0;  // state.position() after the last finished batch
  // SessionState::repeatable_from() then.
  uint64_t repeatable_from = 0;
  RecordedKeys recorded;  // which requests state.records() may have
  // When its last request ended, or its last batch; creation before the first.
  Moment last_step;
  // It came from a snapshot that was taken under other numerics.
  bool other_numerics = false;
  // Of a session that is never advanced: what prompt it stands for, if that is
  // known. SessionTable's.
  std::optional<PrefixDigest> prefix;
  bool active = false;  // a request is queued or running: cannot expire
  // That waits for its client: the state may leave memory all the same.
  bool paused = false;
  Health health = Health::kSound;
  std::unique_ptr<PendingUndo> undo;  // null while the health is another one
  // Of a request that is absorbed now, or of `undo`; null: none is held.
  std::shared_ptr<HeldWay> held;
  // Where it lies among the sessions that no table holds, SessionKeeper's.
  std::optional<size_t> unlisted;

  // The stream that made it and whose end ends it: it is never stored. 0: none.
  uint64_t stream = 0;

  // The cap that its client asked for, where this server gives it less: what is
  // written down, so that another one may give it. 0: it has that.
  uint64_t asked_cap = 0;

  Tier charged = Tier::kMemory;  // what for
  uint64_t charge = 0;           // and how much, in bytes
  // The position of what the store has of it, and of the snapshot in that;
  // absent: it has nothing.
  std::optional<uint64_t> stored;
  std::optional<uint64_t> snapshot;
  bool snapshot_finite = true;  // as far as is known
  bool snapshot_drops = false;  // StoredSession::drops_unfinished
  SteadyTime stored_step;       // its last_step then
  SteadyTime noted_use;         // until when the store or the log has it in use
  bool unstored = false;        // counted so, Shelf's
  bool may_be_stored = false;   // writing it there has failed
  Durability durability = Durability::kNone;
  LogMark log;
  // What the store has beside a snapshot, if there is such a thing.
  std::optional<StoredTail> stored_tail;
  // The keeper's thread is writing its state down: nobody may advance it.
  bool moving = false;
  bool in_making = false;  // StoredSession::unfinished
  // Shelf's, which counts such sessions.
  Unusable unusable = Unusable::kNo;
  // Which of SessionKeeper's jobs waits for a slot for it.
  std::optional<uint64_t> job;

  // Where SessionTable has it among those whose states may be in memory; at
  // most last_step while the session is idle.
  std::optional<SteadyTime> idle_order;
  // Where SessionTable has it in the order of expiry; at most expire_time()
  // while the session is idle, so that advancing costs no change of order.
  std::optional<SteadyTime> order_time;

  // What is queued for it, the engine's: null if nothing is.
  Lane* lane = nullptr;

  SessionState state;
  // States that it had, oldest first, in slots of the session's charge. The
  // keeper's thread changes them, and their list under its mutex.
  std::vector<std::shared_ptr<SessionState>> kept;
  bool keep_due = false;  // one more is wanted when the state is next at rest
  // What the state has to absorb before it is the session's; null: nothing.
  // Belongs to whom the state does.
  std::unique_ptr<LogTail> tail;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_H_
