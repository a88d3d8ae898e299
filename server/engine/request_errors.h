#ifndef STEADYSTATE_SERVER_ENGINE_REQUEST_ERRORS_H_
#define STEADYSTATE_SERVER_ENGINE_REQUEST_ERRORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/engine/backlog.h"
#include "server/session/session.h"
#include "server/session/session_memory.h"

namespace steadystate {

// What requests end with that the engine does not carry out, or not to the end.

// POSITION_MISMATCH. REQUIRES: the request expects a position.
absl::Status PositionMismatch(const Request& request, uint64_t position);
// REQUEST_ID_REUSED. `record`: of the request that had the id first.
absl::Status RequestIdReused(absl::string_view request_id, uint64_t position);
// STORE_UNAVAILABLE: a round of the log is missing, and no snapshot stands for
// it yet.
absl::Status NotLogged(const Session& session);
// STATE_NOT_FINITE, of a request whose state was its own.
absl::Status NotFinite();
// `reason`, with whether anything was absorbed.
absl::Status Unfinished(ErrorReason reason, absl::string_view what,
                        const Request& request);
// DEADLINE_EXCEEDED: its client has not read for kMaxStandstill.
absl::Status StandsStill(const Request& request);
// DRAINING. `id` empty: the session was the request's own, and its position is
// of no use to anybody.
absl::Status CutByDrain(const std::string& id, uint64_t position);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_REQUEST_ERRORS_H_
