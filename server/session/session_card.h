#ifndef STEADYSTATE_SERVER_SESSION_SESSION_CARD_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_CARD_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/binary.h"
#include "server/session/session_id.h"

namespace steadystate {

// What a session is called and how long it lasts.
struct SessionCard {
  SessionUid uid{};
  uint64_t epoch = 0;
  std::string owner;
  std::string id;
  std::map<std::string, std::string> labels;
  absl::Duration ttl;
  absl::Time create_time;     // to the nanosecond
  absl::Time last_step_time;  // to the nanosecond
  uint64_t context_cap = 0;   // 0: none, or not known
};

// Appends it in the form that SNAPSHOT.md specifies.
void WriteCard(const SessionCard& card, std::string& to);
// Reads all that is left. SNAPSHOT_CORRUPT; INVALID_ARGUMENT for what no
// session can have.
absl::Status ReadCard(BinaryReader from, SessionCard& to);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_CARD_H_
