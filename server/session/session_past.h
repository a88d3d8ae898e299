#ifndef STEADYSTATE_SERVER_SESSION_SESSION_PAST_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_PAST_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/session/session.h"
#include "server/session/session_archive.h"
#include "server/session/session_saver.h"
#include "server/session/session_state.h"
#include "server/session/shelf.h"

namespace steadystate {

// The pieces that took a session from one position to another, as LogTail has
// them; the last one may be cut short. Of its records those of pieces that end
// there. REQUIRES: state.repeatable_from() <= from < to <= state.position(),
// and a piece begins at `from`.
//   time             of day, when that was
//   unfinished_text  what the session has of it at `to`
std::string PiecesBetween(const SessionState& state, uint64_t from, uint64_t to,
                          absl::Time time, absl::string_view unfinished_text);

// How a session gets to an earlier position: a state that it had, and what it
// absorbed after that. Lends what the session keeps.
struct WayBack {
  uint64_t begin = 0;  // the state's position
  uint64_t end = 0;
  const SessionState* kept = nullptr;  // the state, or it is ...
  std::string snapshot{};  // ... here; in neither place: that at position 0
  // From begin to end, for all that go that way; null if those are equal.
  std::shared_ptr<const std::string> pieces{};
  // As of the session there, or more.
  uint64_t repeatable_from = 0;
  bool other_numerics = false;
  bool stored = false;     // `snapshot` is in the store still
  bool stays = false;      // the session is there
  bool elsewhere = false;  // the state may be of another session's way
  // Requests that were under way at `begin` went on from there, and do not
  // count where this leads.
  bool drops_unfinished = false;
  // Its clients do not know that it goes there: Health::kTakenBack.
  bool untold = false;
};

// A way to where a session was before the request that it is absorbing, which
// would forget that way.
struct HeldWay {
  uint64_t position = 0;
  std::optional<WayBack> way{};  // none: there was none, or no memory for it
  // Has the state that the way begins with, and is charged for it; null: not
  // needed. Shelf::DropHeld ends it.
  std::unique_ptr<Session> copy{};
};

// Takes sessions back to where they were. Of KeeperThread; confined to that
// thread, which has the sessions' states.
class SessionPast {
 public:
  // All outlive it. `archive`: null without a store.
  SessionPast(const SessionLayout& layout, Shelf& shelf,
              SessionArchive* archive, SessionSaver& saver, const Clock& clock)
      : layout_(layout),
        shelf_(shelf),
        archive_(archive),
        saver_(saver),
        clock_(clock) {}

  // POSITION_OUT_OF_REACH (metadata: position, earliest_position), errors of
  // SessionStore::Read, and STATE_NOT_FINITE: it is there with such a state.
  // Where the session is at `position` there is nothing to go.
  //   unfinished_text  what the session has of it at `position`
  absl::StatusOr<WayBack> Find(Session& session, uint64_t position,
                               absl::string_view unfinished_text);
  // The same from another state than the present one, without the bytes of a
  // snapshot that is in the store: Complete adds them.
  absl::StatusOr<WayBack> FindEarlier(const Session& session, uint64_t position,
                                      absl::string_view unfinished_text);
  absl::Status Complete(const Session& session, WayBack& way);
  // To what a checkpoint is. CHECKPOINT_NOT_FOUND, and errors of
  // SessionStore::Read.
  absl::StatusOr<WayBack> FindCheckpoint(const SessionKey& key);
  // The way's state. REQUIRES: `to` has a fresh slot, or one that was reset.
  absl::Status Restore(const WayBack& way, SessionState& to) const;

  // Makes the session what it was there, but for the pieces, which it has to
  // absorb again. Where there is a store the session is there so first; if that
  // fails nothing has changed. STATE_NOT_FINITE: it is there, with such a
  // state.
  absl::Status Rewind(Session& session, const WayBack& way);

  // Puts a session that shall go that way into the store, if there is one. A
  // loss of power may undo that before SessionArchive::Sync.
  absl::Status Store(Session& session, const WayBack& way);

 private:
  absl::StatusOr<uint64_t> ReadSnapshot(const SessionUid& uid, WayBack& way);

  const SessionLayout& layout_;
  Shelf& shelf_;
  SessionArchive* const archive_;
  SessionSaver& saver_;
  const Clock& clock_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_PAST_H_
