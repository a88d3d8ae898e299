#ifndef STEADYSTATE_SERVER_SESSION_LOG_RECOVERY_H_
#define STEADYSTATE_SERVER_SESSION_LOG_RECOVERY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/session/session_archive.h"
#include "server/session/session_id.h"
#include "server/session/session_store.h"

namespace steadystate {

// What a store has when a process begins.
struct RecoveredSessions {
  std::vector<StoredSession> sessions;
  // All rounds that any of them has seen are below.
  uint64_t next_round = 1;
};

// Brings what the log tells into the store: sessions that were created get a
// snapshot, and those that have absorbed something a tail; what was removed is
// removed. The log is empty then. It may be cut short at any point and done
// again. STORE_UNAVAILABLE.
absl::StatusOr<RecoveredSessions> RecoverSessions(SessionArchive& archive);

// What a store has of one session, its log included.
struct RecoveredSession {
  bool known = false;     // it has a snapshot
  std::string snapshot;   // empty without one: the session begins at position 0
  uint64_t position = 0;  // the snapshot's
  bool other_numerics = false;
  std::string tail;         // what it absorbed after that, as LogTail has it
  uint64_t end = 0;         // the position after that
  bool has_rounds = false;  // some of the tail is from the log
  // Inputs before this position cannot be absorbed again, as far as is known.
  uint64_t repeatable_from = 0;
};

// Which rounds of the log are to be looked at.
struct RoundSpan {
  uint64_t first = 0;
  uint64_t last = 0;  // below `first`: none
};

// The same as a process would find that began now, but for the pieces that end
// beyond `until`. REQUIRES: the thread that calls SessionStore::DropRounds.
// STORE_UNAVAILABLE.
absl::StatusOr<RecoveredSession> RecoverSession(SessionArchive& archive,
                                                const SessionUid& uid,
                                                RoundSpan rounds,
                                                uint64_t until);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_LOG_RECOVERY_H_
