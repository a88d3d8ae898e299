#ifndef STEADYSTATE_SERVER_SESSION_SESSION_TABLE_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/session/expired_ids.h"
#include "server/session/prefix.h"
#include "server/session/session.h"
#include "server/session/session_info.h"
#include "server/session/session_state.h"

namespace steadystate {

// The sessions by id, and when each expires. A session expires when it has been
// idle for its ttl since its last request ended. An expired session is not
// found any more, but holds its memory until TakeExpired.
//
// Thread-compatible. Every method takes the time as an argument. What expires
// is a matter of steady time; the time of day is only shown.
class SessionTable {
 public:
  // The layout outlives the table. `stored`: the sessions have a store, and so
  // LongestIdle is asked for, and who is in use.
  SessionTable(const SessionLayout& layout, absl::Duration default_ttl,
               size_t max_expired_remembered, bool stored = false);

  absl::Duration default_ttl() const { return default_ttl_; }

  // Whether such a session can be added: INVALID_ARGUMENT,
  // SESSION_ALREADY_EXISTS, STORE_UNAVAILABLE (see KeepName).
  absl::Status CheckNew(const SessionOptions& options) const;
  // The same of its key alone.
  absl::Status CheckFree(const SessionKey& key) const;

  // Gives a session what it is called by, and since when it lives, and keeps
  // others from that name. It is not there before it is added; until then the
  // name is its own, or until Disclaim. REQUIRES: CheckNew succeeded, and the
  // options have an id.
  void Claim(Session& session, SessionOptions options, const Moment& now);
  void Disclaim(const Session& session) { claimed_.erase(session.key()); }
  // Whose name it was may come back: it is nobody else's, and whoever asks for
  // it is told so. As NameOf has it.
  void KeepName(const std::string& name) { kept_names_.insert(name); }
  void GiveBackName(const std::string& name) { kept_names_.erase(name); }
  Session& Add(std::unique_ptr<Session> claimed);
  // How many names of that kind are claimed: a few.
  size_t claimed(SessionKind kind) const;

  // Adds a session without a slot. It is there until it is removed or taken.
  // REQUIRES: CheckNew succeeded.
  Session& Add(SessionOptions options, const Moment& now);
  // The same with a session that has no name yet, which may be in use.
  Session& Add(std::unique_ptr<Session> session, SessionOptions options,
               const Moment& now);

  // When it was created and used last, if that was not now.
  void SetTimes(Session& session, const Moment& created,
                const Moment& last_step);

  // SESSION_NOT_FOUND; SESSION_EXPIRED, also of one that holds memory still;
  // STORE_UNAVAILABLE (see KeepName).
  absl::StatusOr<Session*> Find(const SessionKey& key, const Moment& now) const;

  // Says that Find will be asked for the session soon.
  void WillFind(const SessionKey& key) const { sessions_.prefetch(key); }

  // Looks at some thousands of sessions at most: a page that few of those match
  // has fewer than `page_size`, or none, and yet a next one. INVALID_ARGUMENT,
  // INVALID_PAGE_TOKEN.
  absl::StatusOr<SessionPage> List(const SessionQuery& query, size_t page_size,
                                   absl::string_view page_token,
                                   const Moment& now) const;

  SessionInfo Describe(const Session& session, const Moment& now) const;

  // While active a session does not expire. When it becomes idle its ttl begins
  // anew. REQUIRES: it is not what it is set to.
  void SetActive(Session& session, const Moment& now);
  void SetIdle(Session& session, const Moment& now);

  std::unique_ptr<Session> Remove(Session& session);

  // The session stands for a prompt from now on, and is found by that. Where
  // several stand for the same one, any of them.
  void SetPrefix(Session& session, const PrefixDigest& prefix);
  // Expired or not; null if there is none.
  Session* FindPrefix(const PrefixDigest& prefix) const;
  // Of those that are kept by themselves (PrefixId): how many there are, and
  // the one that was asked for least lately; null if there is none.
  size_t kept_prefixes() const { return kept_prefixes_.size(); }
  Session* OldestPrefix() const;

  // Those that the stream made (Session::stream), `most` of them at most.
  std::vector<Session*> OfStream(uint64_t stream, size_t most) const;

  // The session takes memory while it is idle, or does not any more. Those that
  // become idle in memory are watched without a word.
  void WatchIdle(Session& session);
  void ForgetIdle(Session& session);
  // Of the sessions that are watched, and idle or paused, the one that has been
  // so longest; null if there is none. Looks at up to `max` that may be.
  Session* LongestIdle(size_t max);
  // No session that is watched has been idle for longer than since then.
  SteadyTime IdleSince() const;

  // Looks at up to `max` sessions that may have expired, and removes those that
  // have; their ids are remembered. Those left are due still by NextExpiry.
  //   in_use  gets those that are active, where they have a store: each after
  //           ttl / kLooksInTtl, and again and again after as long
  std::vector<std::unique_ptr<Session>> TakeExpired(
      const Moment& now, size_t max, std::vector<Session*>& in_use);
  static constexpr int kLooksInTtl = 16;

  // Removes the session of that name if it has expired; else null.
  std::unique_ptr<Session> TakeIfExpired(const SessionKey& key,
                                         const Moment& now);

  // Which ids have expired lately.
  ExpiredIds& expired() { return expired_; }

  // No session expires before this time.
  SteadyTime NextExpiry() const;

  // All of them, those expired but not taken included.
  std::vector<const Session*> Sessions() const;
  // Lent by the sessions, also when they are removed.
  std::vector<SessionKey> Keys() const;
  // Expired or not; null if there is none.
  Session* FindAny(const SessionKey& key) const;
  size_t size() const { return sessions_.size(); }
  size_t active() const { return active_; }
  // How many of them are of that kind, and how many of those are active.
  struct Count {
    size_t all = 0;
    size_t active = 0;
  };
  Count count(SessionKind kind) const {
    return counts_[static_cast<size_t>(kind)];
  }

 private:
  static bool Expired(const Session& session, SteadyTime now) {
    return !session.active && session.expire_time() <= now;
  }
  void Name(Session& session, SessionOptions options, const Moment& now);
  std::unique_ptr<Session> RemoveExpired(Session& session, const Moment& now);
  void SetIdleOrder(Session& session, std::optional<SteadyTime> time);
  void SetOrder(Session& session, SteadyTime time);
  void ClearOrder(Session& session);
  bool KeepsName(const SessionKey& key) const {
    return !kept_names_.empty() && kept_names_.contains(NameOf(key));
  }
  absl::Status NotFound(const SessionKey& key) const;
  Count& CountOf(const Session& session) {
    return counts_[static_cast<size_t>(KindOfId(session.id))];
  }

  const SessionLayout& layout_;
  const absl::Duration default_ttl_;
  const bool stored_;
  // By key, which lies in the session: each step looks for one, hence the hash,
  // and lists go by ids in their order.
  absl::flat_hash_map<SessionKey, std::unique_ptr<Session>> sessions_;
  absl::btree_set<SessionKey> keys_;
  absl::flat_hash_set<SessionKey> claimed_;
  absl::flat_hash_set<std::string> kept_names_;
  absl::btree_set<std::pair<SteadyTime, Session*>> order_;
  absl::btree_set<std::pair<SteadyTime, Session*>> idle_order_;
  absl::btree_set<std::pair<PrefixDigest, Session*>> prefixes_;
  std::vector<Session*> kept_prefixes_;
  absl::btree_set<std::pair<uint64_t, Session*>> of_streams_;
  size_t active_ = 0;
  std::array<Count, kSessionKinds> counts_{};
  ExpiredIds expired_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_TABLE_H_
