#ifndef STEADYSTATE_SERVER_SESSION_SESSION_STORE_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_STORE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/session/expired_ids.h"
#include "server/session/prefix.h"
#include "server/session/session_card.h"
#include "server/session/session_info.h"

namespace steadystate {

// How long a store or a log that has failed is left alone.
inline constexpr absl::Duration kStoreRetry = absl::Seconds(1);

// What a session has absorbed since its snapshot was taken, as LogTail has it.
struct StoredTail {
  uint64_t end = 0;            // the session's position after it
  uint64_t numerics = 0;       // a tag of what computed it
  uint64_t through_round = 0;  // of the log: what came later is not in it
  // Something between the snapshot and the end is lost.
  bool damaged = false;
  // It says what the session did before it was taken back to there, and has not
  // been since: any numerics may absorb it.
  bool remade = false;
};

// What is known of a stored session without reading its snapshot.
struct StoredSession {
  SessionCard card;
  uint64_t position = 0;        // of the snapshot
  bool other_numerics = false;  // than the session began under
  Durability durability = Durability::kShutdown;
  // Rounds of the log up to this one are in the snapshot, or in the tail.
  uint64_t round = 0;
  // Inputs before this position cannot be absorbed again.
  uint64_t repeatable_from = 0;
  // It is what it was earlier, and nobody has been told (Health::kTakenBack).
  bool taken_back = false;
  // It, or what it is a copy of, was taken back to the snapshot: requests that
  // were under way then do not count.
  bool drops_unfinished = false;
  // It is being made together with others: none of them is a session yet.
  bool unfinished = false;
  // As of Session.
  std::optional<PrefixDigest> prefix{};
  std::optional<StoredTail> tail{};
};

// A session's state, as it was stored.
struct StoredState {
  std::string snapshot;
  std::string tail;  // empty without one
};

// What changes of a stored session whose snapshot stays.
struct StoredChange {
  StoredSession session;
  // Bodies, as LogTail has them; nothing: what there is of them stays.
  std::optional<std::string> tail{};
};

// Where sessions are kept while they are not in memory, and when the process is
// not: a card and a snapshot each, by uid, maybe with a tail; and a log of
// rounds, each of which says what some sessions have done since. A session is
// there as it was last put there, or not at all, and so is a round: an
// operation that fails, or is cut short by the process's end, has happened or
// it has not.
//
// Errors are UNAVAILABLE / STORE_UNAVAILABLE with a retry hint; such a store
// may work again later, without being opened anew. Thread-safe. Calls take as
// long as a disk does: not under a lock, nor on a thread that others wait for.
// Those of the log do not wait for the others.
class SessionStore {
 public:
  virtual ~SessionStore() = default;

  // Calls `each` for every session, in any order.
  virtual absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) = 0;

  // Puts it there, in place of what there is of the same uid, its tail
  // included.
  //   tail  bodies, as LogTail has them; empty if the session has no tail
  virtual absl::Status Put(const StoredSession& session,
                           absl::string_view snapshot,
                           absl::string_view tail) = 0;
  // Puts what is known of sessions there, and tails, beside the snapshots,
  // which stay.
  virtual absl::Status PutChanges(std::span<const StoredChange> changes) = 0;

  // SNAPSHOT_CORRUPT if there is no snapshot, which should not be.
  virtual absl::StatusOr<StoredState> Read(const SessionUid& uid) = 0;

  // Those that are not there are no error.
  virtual absl::Status Remove(std::span<const SessionUid> uids) = 0;

  // Which sessions have expired: calls `each` for every one that it was told of
  // and not to forget, in any order.
  virtual absl::Status ForEachExpired(
      const std::function<void(ExpiredId expired)>& each) = 0;
  virtual absl::Status PutExpired(std::span<const ExpiredId> expired) = 0;

  // What was put and removed is there after a loss of power, too.
  virtual absl::Status Sync() = 0;

  // Writes these bytes as Put and Sync would a snapshot of that size, or where
  // that takes as long, and leaves nothing of them, also if that fails: to see
  // how long it takes.
  virtual absl::Status Try(absl::string_view snapshot) = 0;

  // Calls `each` for the rounds of this number and above that were appended
  // before the call, in order, and maybe for some below; lent. DATA_LOSS, which
  // another try does not cure: some are damaged.
  virtual absl::Status ForEachRound(
      uint64_t from,
      const std::function<void(uint64_t round, absl::string_view content)>&
          each) = 0;
  // REQUIRES: the numbers of rounds ascend, over all processes.
  virtual absl::Status AppendRound(uint64_t round,
                                   absl::string_view content) = 0;
  // What was appended is there after a loss of power, too.
  virtual absl::Status SyncRounds() = 0;
  // Rounds below this one are not needed any more: whether there is something
  // to remove, and removing it.
  virtual bool CanDropRounds(uint64_t below) = 0;
  virtual absl::Status DropRounds(uint64_t below) = 0;
  // What the log takes.
  virtual uint64_t RoundBytes() = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_STORE_H_
