#ifndef STEADYSTATE_SERVER_SESSION_SESSION_LIMITS_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_LIMITS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/session/session_info.h"

namespace steadystate {

// How many inputs a session absorbs at most, whatever its model holds: clients
// in which numbers are doubles can still count them.
inline constexpr uint64_t kMaxPosition = uint64_t{1} << 53;

// CONTEXT_CAP_REACHED if a session of this cap, 0 for none, cannot be at that
// position.
absl::Status CheckCapReaches(uint64_t context_cap, uint64_t position);

// Of all sessions of a SessionKeeper.
struct SessionLimits {
  uint64_t memory_bytes = 0;  // what all sessions may be charged
  absl::Duration default_ttl;
  size_t max_expired_remembered = 0;
  // With a store: what all of them may take there, and how long they are idle
  // in memory.
  uint64_t store_bytes = 0;
  absl::Duration hibernate_after = absl::InfiniteDuration();
  // Of sessions that ask for none, with a store.
  Durability default_durability = Durability::kShutdown;
  absl::Duration log_sync_interval = absl::Seconds(1);
  // What a session has in the log takes no longer to be computed again.
  absl::Duration max_replay = absl::Seconds(1);
  bool allow_other_numerics = false;  // than the log was written under
  // How prompts are cut, what computes them, and how many of them are kept by
  // themselves (SessionPrefixes).
  size_t piece_rows = 64;
  uint64_t prefix_numerics = 0;
  size_t max_prefixes = 0;
  // How many checkpoints there may be; absent: a quarter of the sessions that
  // the budget holds, and one. They stay until somebody deletes them.
  std::optional<size_t> max_checkpoints{};
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_LIMITS_H_
