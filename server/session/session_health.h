#ifndef STEADYSTATE_SERVER_SESSION_SESSION_HEALTH_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_HEALTH_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "server/model/state_norms.h"
#include "server/session/session.h"
#include "server/session/session_state.h"
#include "server/session/shelf.h"

namespace steadystate {

// STATE_NOT_FINITE, of a session that can be named (metadata: position,
// restored and, where that is false, kept_position). The caller holds
// SessionKeeper's mutex.
//   restored  it is what it was before
absl::Status StateNotFinite(const Session& session, bool restored);

// Finds states that have NaN or infinity. What a state has is looked at where
// all of it is read anyway, since that takes as long as copying it: when it is
// written down, kept, copied or asked for. A step's outputs tell at once.
//
// A session whose state is not finite (Health::kNotFinite) computes nothing,
// and is neither copied nor kept. It is good again when it has been taken back.
//
// Thread-safe; the calls about a session's state are of the thread that has it.
class SessionHealth {
 public:
  // Both outlive it.
  SessionHealth(const SessionLayout& layout, Shelf& shelf)
      : layout_(layout), shelf_(shelf) {}

  // Whether the session's state is finite. One that is not is noted.
  bool Examine(Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // The same as an error: StateNotFinite.
  absl::Status Check(Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // Whether it has been noted.
  bool IsNoted(const Session& session) const ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  // Whether a state is finite that has come from the store; nothing is noted.
  bool IsStateFinite(const SessionState& state) const;

  // What the session was given led to something that is not finite, and it was
  // taken back, or could not be. Counts that. -> what its request ends with.
  absl::Status Failed(Session& session, bool restored)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  // Of each slot of its state. Notes a state that is not finite.
  std::vector<SlotNorm> Norms(Session& session)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);

 private:
  void Note(Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  const SessionLayout& layout_;
  Shelf& shelf_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_HEALTH_H_
