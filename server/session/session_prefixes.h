#ifndef STEADYSTATE_SERVER_SESSION_SESSION_PREFIXES_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/session/prefix.h"
#include "server/session/session.h"
#include "server/session/session_archive.h"
#include "server/session/session_past.h"
#include "server/session/session_saver.h"
#include "server/session/session_state.h"
#include "server/session/shelf.h"

namespace steadystate {

// Begins sessions where earlier prompts of the same owner have been, instead of
// computing that again, and keeps for that what prompts have been: as
// checkpoints are kept, but nobody can name it, others' memory comes first, and
// it ends when nobody has asked for it for as long as a session may be idle.
//
// What a session is that way is to the byte what it would be otherwise: states
// are told apart by all that decides them (PrefixDigest).
//
// Of KeeperThread; confined to that thread, which has the sessions' states.
class SessionPrefixes {
 public:
  // A state that others can stand for copies of.
  using CopyOf = std::function<absl::StatusOr<std::shared_ptr<SessionState>>(
      const SessionState&)>;

  // All outlive it. `archive`: null without a store.
  SessionPrefixes(Shelf& shelf, SessionArchive* archive, SessionSaver& saver,
                  SessionPast& past, const Clock& clock, Metrics& metrics,
                  CopyOf copy_of)
      : shelf_(shelf),
        archive_(archive),
        saver_(saver),
        past_(past),
        clock_(clock),
        metrics_(metrics),
        copy_of_(std::move(copy_of)) {}

  struct Reused {
    PrefixReuse result = PrefixReuse::kNotKept;
    uint64_t tokens = 0;  // of the prompt; the session's position
  };
  // Makes a session that has absorbed nothing what it is after the longest
  // beginning of the prompt that is kept, if any is. Where the session is
  // logged the store has it so; if that fails nothing has changed.
  //   begun  is called with the state then, before it is stored
  absl::StatusOr<Reused> Reuse(Session& session, absl::string_view owner,
                               std::span<const int32_t> prompt,
                               const std::function<void(SessionState&)>& begun);

  // Keeps what the session is after the prompt, which is all that it has
  // absorbed, if there is room for it and it is not kept.
  void Keep(Session& session, std::span<const int32_t> prompt);

  // How prompts are cut and what computes them, of all sessions of the owner.
  PrefixOrigin OriginOf(absl::string_view owner) const {
    return {.owner = owner,
            .numerics = shelf_.prefix_numerics,
            .piece_rows = shelf_.piece_rows};
  }

 private:
  // The session that has it, and how much it is of the prompt; null: none.
  struct Found {
    std::string id;
    uint64_t tokens = 0;
  };
  // At most `context_cap` of it, if that is not 0.
  Found Find(absl::string_view owner, std::span<const int32_t> prompt,
             uint64_t context_cap) const ABSL_LOCKS_EXCLUDED(shelf_.mutex);
  absl::Status Restore(const Found& found, absl::string_view owner,
                       Session& session);
  absl::Status Begun(Session& session);

  Shelf& shelf_;
  SessionArchive* const archive_;
  SessionSaver& saver_;
  SessionPast& past_;
  const Clock& clock_;
  Metrics& metrics_;
  const CopyOf copy_of_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_PREFIXES_H_
