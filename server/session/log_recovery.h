#ifndef STEADYSTATE_SERVER_SESSION_LOG_RECOVERY_H_
#define STEADYSTATE_SERVER_SESSION_LOG_RECOVERY_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/session/session_archive.h"
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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_LOG_RECOVERY_H_
