#ifndef STEADYSTATE_SERVER_ENGINE_CONTEXT_CAP_H_
#define STEADYSTATE_SERVER_ENGINE_CONTEXT_CAP_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/session/session_state.h"

namespace steadystate {

// CONTEXT_CAP_REACHED if the session cannot absorb `rows` more.
absl::Status CheckContextCap(const SessionState& session, uint64_t rows);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_ENGINE_CONTEXT_CAP_H_
