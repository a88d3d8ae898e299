#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_RUN_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_RUN_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"

namespace steadystate::client {

// How far a run has come.
struct LoadProgress {
  // Sessions made so far, while they are being made.
  std::optional<uint64_t> created;
  absl::Duration elapsed;        // since the warm-up began
  double tokens_per_second = 0;  // drawn, in the last moments
  uint64_t errors = 0;           // requests failed so far
};

// Puts load on a server: creates the sessions, runs, deletes them, also after
// an interruption through the canceller of `call`, which ends the run early but
// in order. `on_progress` is called some times a second, by the calling thread.
//
// Errors of sessions and requests are counted in the result; an error is
// returned if the server cannot be spoken to at all, or the options do not suit
// the model.
absl::StatusOr<LoadResult> RunLoad(
    const Client& client, const CallOptions& call, const LoadOptions& options,
    const std::function<void(const LoadProgress&)>& on_progress);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_RUN_H_
