#ifndef STEADYSTATE_SERVER_SESSION_SESSION_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/session/session_id.h"
#include "server/session/session_info.h"
#include "server/session/session_memory.h"
#include "server/session/session_state.h"

namespace steadystate {

struct Lane;

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

  SessionUid uid = NewSessionUid();
  std::string owner;  // of the id: others may use the same one
  std::string id;     // empty: nobody can name it
  Moment created;
  absl::Duration ttl = absl::InfiniteDuration();
  std::map<std::string, std::string> labels;

  uint64_t position = 0;  // state.position() after the last finished batch
  RecordedKeys recorded;  // which requests state.records() may have
  // When its last request ended, or its last batch; creation before the first.
  Moment last_step;
  // It came from a snapshot that was taken under other numerics.
  bool other_numerics = false;
  bool active = false;  // a request is queued or running: cannot expire
  // Where it lies among the sessions that no table holds, SessionKeeper's.
  std::optional<size_t> unlisted;

  // Where SessionTable has it in the order of expiry; at most expire_time()
  // while the session is idle, so that advancing costs no change of order.
  std::optional<SteadyTime> order_time;

  // What is queued for it, the engine's: null if nothing is.
  Lane* lane = nullptr;

  SessionState state;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_H_
