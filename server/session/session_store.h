#ifndef STEADYSTATE_SERVER_SESSION_SESSION_STORE_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_STORE_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/session/session_card.h"

namespace steadystate {

// What is known of a stored session without reading its snapshot.
struct StoredSession {
  SessionCard card;
  uint64_t position = 0;        // of the snapshot
  bool other_numerics = false;  // than the session began under
};

// Where sessions are kept while they are not in memory, and when the process is
// not: a card and a snapshot each, by uid. A session is there as it was last
// put there, or not at all: an operation that fails, or is cut short by the
// process's end, has happened or it has not.
//
// Errors are UNAVAILABLE / STORE_UNAVAILABLE with a retry hint; such a store
// may work again later, without being opened anew. Thread-safe. Calls take as
// long as a disk does: not under a lock, nor on a thread that others wait for.
class SessionStore {
 public:
  virtual ~SessionStore() = default;

  // Calls `each` for every session, in any order.
  virtual absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) = 0;

  // Puts it there, in place of what there is of the same uid.
  virtual absl::Status Put(const StoredSession& session,
                           absl::string_view snapshot) = 0;

  // The snapshot; SNAPSHOT_CORRUPT if there is none, which should not be.
  virtual absl::StatusOr<std::string> Read(const SessionUid& uid) = 0;

  // Those that are not there are no error.
  virtual absl::Status Remove(std::span<const SessionUid> uids) = 0;

  // What was put and removed is there after a loss of power, too.
  virtual absl::Status Sync() = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_STORE_H_
