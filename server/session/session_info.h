#ifndef STEADYSTATE_SERVER_SESSION_SESSION_INFO_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_INFO_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/metrics/metrics.h"

namespace steadystate {

// What a session is found by: its id among those of its owner. Lent.
struct SessionKey {
  // An id alone names a session without an owner, so it converts by itself.
  // NOLINTBEGIN(google-explicit-constructor)
  SessionKey(absl::string_view session, absl::string_view of = "")
      : owner(of), id(session) {}
  SessionKey(const std::string& session) : id(session) {}
  SessionKey(const char* session) : id(session) {}
  // NOLINTEND(google-explicit-constructor)

  absl::string_view owner;
  absl::string_view id;

  friend bool operator==(const SessionKey& a, const SessionKey& b) {
    return a.id == b.id && a.owner == b.owner;
  }
  friend bool operator<(const SessionKey& a, const SessionKey& b) {
    return std::tie(a.owner, a.id) < std::tie(b.owner, b.id);
  }
  template <typename H>
  friend H AbslHashValue(H state, const SessionKey& key) {
    return H::combine(std::move(state), key.owner, key.id);
  }
};

// The same in one piece, to be kept: no id has a slash.
inline std::string NameOf(const SessionKey& key) {
  return absl::StrCat(key.owner, "/", key.id);
}

// What of a session outlives what, where there is a store.
enum class Durability : uint8_t {
  kNone,      // nothing outlives the process
  kShutdown,  // it is stored when the process is asked to end
  kLog,       // what has been answered outlives the process, however it ends
  kSync,      // and a loss of power
};

// Is what it absorbs written down before that is answered?
constexpr bool IsLogged(Durability durability) {
  return durability >= Durability::kLog;
}

// What a session is charged for.
enum class Tier : uint8_t {
  kMemory,  // a state there, until it ends
  kStore,   // a snapshot: it may be elsewhere, too
};

// Where a session's state is.
enum class SessionTier : uint8_t {
  kMemory,     // in a slot of its own
  kElsewhere,  // in none: it must be brought there before the next step
  kStored,     // in the store: the same
};

// What can be asked of a new session.
struct SessionOptions {
  // Only requests with the same owner find the session. Empty: it has none.
  std::string owner;
  // 1 to 63 of [a-z0-9-], beginning with a letter or digit; empty: the server
  // makes one of 128 random bits.
  std::string id;
  std::optional<absl::Duration> ttl;          // absent: the server's default
  std::map<std::string, std::string> labels;  // bounded, see session_id.h
  std::optional<Durability> durability;       // absent: the server's default
  std::optional<uint64_t> context_cap{};      // the same
};

// What of a session its client changes; the rest stays.
struct SessionChanges {
  std::optional<uint64_t> context_cap{};
  std::optional<absl::Duration> ttl{};
  std::optional<std::map<std::string, std::string>> labels{};
};

// The most copies of a session that are made at once.
inline constexpr size_t kMaxForks = 256;

// Where on its way a session is meant: at a position, or so many inputs before
// its own, or what a checkpoint is, by its id; at its own without any of them.
struct PastPoint {
  std::optional<uint64_t> position{};
  std::optional<uint64_t> inputs_back{};
  std::optional<std::string> checkpoint{};
};

// What a list is of.
enum class Listed : uint8_t { kSessions, kCheckpoints };

// Which of an owner's sessions, or checkpoints, a list is to have.
struct SessionQuery {
  Listed what = Listed::kSessions;
  std::string owner{};
  // A pattern for their ids (MatchesPattern); empty: all.
  std::string pattern{};
  // Each of them has all of these.
  std::map<std::string, std::string> labels{};
};

// What copies of a session are to be. Those after the first differ in nothing
// but their ids.
struct ForkOptions {
  std::vector<std::string> ids;  // empty: the server makes them
  size_t count = 1;              // where there are no ids
  PastPoint at;
  // They are checkpoints; the ids are those (session_id.h).
  bool checkpoints = false;
  // Absent or empty: those of the session that is copied. Of checkpoints, and
  // of what is made of those: as of a new session.
  std::optional<absl::Duration> ttl;
  std::map<std::string, std::string> labels;
  std::optional<Durability> durability;
  std::optional<uint64_t> context_cap{};  // absent: of what is copied
};

// Copies of a session.
struct Forks {
  std::vector<std::string> ids;  // in the order in which they were asked for
  uint64_t position = 0;         // of all of them
};

// Why requests that need a session's state are refused, whatever they are.
enum class Unusable : uint8_t {
  kNo,              // as far as is known
  kOtherNumerics,   // others than these computed what the log has of it
  kSnapshotCorrupt  // what the store has of it is damaged
};
inline constexpr size_t kUnusables = 3;

// A session as clients see it; a copy, taken at one moment. Times are of day.
struct SessionInfo {
  std::string id;
  std::string uid;        // 32 hexadecimal digits
  uint64_t position = 0;  // tokens absorbed
  // It can go back to any position from this one on.
  uint64_t earliest_position = 0;
  uint64_t state_bytes = 0;  // charged against the budget
  bool active = false;       // a request is queued or running
  SessionTier tier = SessionTier::kMemory;
  absl::Time create_time;
  // When the last request on it ended; creation before the first.
  absl::Time last_step_time;
  absl::Duration ttl;
  // last_step_time + ttl; while the session is active, the present time + ttl.
  // If the system's clock has been set since, corrected by as much.
  absl::Time expire_time;
  std::map<std::string, std::string> labels;
  bool other_numerics = false;  // than it began under
  Durability durability = Durability::kNone;
  bool not_finite = false;  // Health::kNotFinite
  Unusable unusable = Unusable::kNo;
  bool ephemeral = false;    // ends with the stream that made it
  uint64_t context_cap = 0;  // it absorbs so many inputs; 0: any number
  // Of the answer to its creation alone.
  std::optional<PrefixReuse> prefix_reuse{};
};

// The most sessions of a page.
inline constexpr size_t kMaxPageSize = 1000;

// A part of the list of all sessions.
struct SessionPage {
  std::vector<SessionInfo> sessions;  // by id, ascending
  std::string next_page_token;        // empty: this was the last page
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_INFO_H_
