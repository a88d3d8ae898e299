#ifndef STEADYSTATE_SERVER_SESSION_SESSION_UNDO_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_UNDO_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/session/session.h"
#include "server/session/session_health.h"
#include "server/session/session_past.h"
#include "server/session/session_saver.h"
#include "server/session/shelf.h"
#include "server/session/state_pool.h"

namespace steadystate {

// Takes sessions back to before what led to a state that is not finite: to what
// the present state remembers, else to what is held for that, else to what the
// store and its log have. Of KeeperThread; confined to that thread, which has
// the sessions' states.
class SessionUndo {
 public:
  using NewSlot =
      std::function<absl::StatusOr<StateLease>(uint64_t context_cap)>;

  // All outlive it.
  SessionUndo(const SessionLayout& layout, Shelf& shelf, SessionSaver& saver,
              SessionPast& past, const Clock& clock, NewSlot new_slot)
      : layout_(layout),
        shelf_(shelf),
        saver_(saver),
        past_(past),
        clock_(clock),
        new_slot_(std::move(new_slot)) {}

  // Sees to it that there is a way back to where the session is, whatever it
  // absorbs next: remembers the inputs that lead there from an earlier state,
  // or lets the store have the state, or copies it. If all of that fails,
  // Session::held says so. Shelf::DropHeld ends it.
  void Hold(Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  // Takes the session back, counts that, and returns what the request ends
  // with: STATE_NOT_FINITE. Where that fails it is noted, to be tried again.
  //   unfinished_text  what the session has of it at `position`
  absl::Status Undo(Session& session, uint64_t position,
                    std::string unfinished_text)
      ABSL_LOCKS_EXCLUDED(shelf_.mutex);

  // Tries once more what failed because the store did, if anything did. The
  // session's clients are told then (Health::kTakenBack).
  void Retry(Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  // The same if it is time for that.
  void RetryIfDue(Session& session) ABSL_LOCKS_EXCLUDED(shelf_.mutex);

 private:
  absl::StatusOr<WayBack> Find(Session& session, uint64_t position,
                               absl::string_view unfinished_text);
  absl::StatusOr<WayBack> FindLogged(const Session& session, uint64_t position);
  std::unique_ptr<Session> CopyOf(const SessionState& state);
  SteadyTime RetryAfter(const absl::Status& failure) const;

  const SessionLayout& layout_;
  Shelf& shelf_;
  SessionSaver& saver_;
  SessionPast& past_;
  const Clock& clock_;
  const NewSlot new_slot_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_UNDO_H_
