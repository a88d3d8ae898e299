#include "server/session/session_health.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/base/error.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"

namespace steadystate {

absl::Status StateNotFinite(const Session& session, bool restored) {
  const uint64_t position = session.position;
  if (restored) {
    return MakeError(
        ErrorReason::kStateNotFinite,
        absl::StrCat("NaN or infinity came up: session '", session.id,
                     "' is at position ", position,
                     ", as it was there; send other inputs, or take it back "
                     "further"),
        {{"position", absl::StrCat(position)}, {"restored", "true"}});
  }
  const uint64_t kept = session.LatestKept();
  return MakeError(
      ErrorReason::kStateNotFinite,
      absl::StrCat("NaN or infinity came up: the state of session '",
                   session.id, "' at position ", position,
                   " cannot be trusted, and none is kept from which the one "
                   "before could be restored: take the session back to "
                   "position ",
                   kept, kept == 0 ? "" : " or before it", ", or delete it"),
      {{"position", absl::StrCat(position)},
       {"restored", "false"},
       {"kept_position", absl::StrCat(kept)}});
}

bool SessionHealth::Examine(Session& session) {
  if (IsNoted(session)) return false;
  if (IsStateFinite(session.state)) return true;
  Note(session);
  return false;
}

absl::Status SessionHealth::Check(Session& session) {
  if (Examine(session)) return absl::OkStatus();
  const MutexLock lock(shelf_.mutex);
  return StateNotFinite(session, /*restored=*/false);
}

bool SessionHealth::IsNoted(const Session& session) const {
  const MutexLock lock(shelf_.mutex);
  return session.health == Health::kNotFinite;
}

absl::Status SessionHealth::Failed(Session& session, bool restored) {
  shelf_.metrics.NonFiniteState(restored ? NonFinite::kRestored
                                         : NonFinite::kNotRestored);
  const MutexLock lock(shelf_.mutex);
  if (!restored) {
    session.position = session.state.position();
    session.repeatable_from = session.state.repeatable_from();
  }
  return StateNotFinite(session, restored);
}

std::vector<SlotNorm> SessionHealth::Norms(Session& session) {
  const SessionState& state = session.state;
  std::vector<SlotNorm> norms = NormsOf(
      layout_.state(), state.position() == 0 ? nullptr : state.model_state(),
      state.position());
  const bool finite =
      std::all_of(norms.begin(), norms.end(),
                  [](const SlotNorm& norm) { return norm.non_finite == 0; });
  if (!finite && !IsNoted(session)) Note(session);
  return norms;
}

// The state may stand for a copy of another one.
bool SessionHealth::IsStateFinite(const SessionState& state) const {
  const SessionState& its = state.origin() == nullptr ? state : *state.origin();
  if (its.position() == 0 || !its.has_slot()) return true;
  return IsFinite(layout_.state(), its.model_state(), its.position());
}

void SessionHealth::Note(Session& session) {
  shelf_.metrics.NonFiniteState(NonFinite::kNotRestored);
  const MutexLock lock(shelf_.mutex);
  session.health = Health::kNotFinite;
}

}  // namespace steadystate
