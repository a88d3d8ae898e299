#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_OPTIONS_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_OPTIONS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace steadystate::client {

// The call that carries requests.
enum class LoadRpc : uint8_t {
  kStep,      // StreamStep: streams of many sessions, one step for each token
  kGenerate,  // Generate: one call for each request, the server draws
};

// What load to put on a server. A request is a prompt on a session, and the
// tokens that are drawn after it.
struct LoadOptions {
  LoadRpc rpc = LoadRpc::kStep;
  uint64_t sessions = 8;
  // StreamStep streams; session i is on stream i % streams.
  uint64_t streams = 1;
  uint64_t prompt_tokens = 16;
  uint64_t generate_tokens = 32;
  // Requests per second of all sessions together, as a Poisson process (open
  // loop). 0: each session begins its next request when the last one has ended
  // (closed loop).
  double rate = 0;
  // Left out of latencies and rates.
  absl::Duration warmup = absl::Seconds(2);
  // Of what is measured. 0: until interrupted.
  absl::Duration duration = absl::Seconds(10);
  // How long requests that are under way may go on after that.
  absl::Duration drain = absl::Seconds(10);
  // The later the tester itself sends, the less the figures say.
  absl::Duration max_send_lag = absl::Milliseconds(1);
  uint64_t seed = 1;

  bool open_loop() const { return rate > 0; }
};

// INVALID_ARGUMENT, naming option, value and bound, for people.
absl::Status Validate(const LoadOptions& options);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_OPTIONS_H_
