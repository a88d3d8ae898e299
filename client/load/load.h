#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/load/tally.h"
#include "steadystate/client.h"
#include "steadystate/v1/model.pb.h"

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

// What a run of load came to.
struct LoadResult {
  LoadOptions options;
  v1::Model model;
  Tally tally;
  absl::Duration window;  // of what was measured, as it turned out
  bool interrupted = false;
  bool going_away = false;  // the server shut down, which ended the run

  uint64_t sessions_created = 0;  // at the start
  uint64_t sessions_left = 0;     // that were still of use at the end
  uint64_t sessions_unheard = 0;  // whose requests never got an answer
  // That may still be on the server, since it could not be made to delete them
  // or did not answer when they were made.
  uint64_t sessions_undeleted = 0;

  // Open loop.
  uint64_t arrivals = 0;    // requests that were to be sent in the window
  Histogram send_lag;       // how late the tester itself was
  size_t peak_backlog = 0;  // requests that waited for a free session
  uint64_t unsent = 0;      // requests that never found one

  // The tester's own use of processors within the window.
  double client_cpus = 0;
  size_t processors = 0;  // that it may use
};

// Rates within the window, per second.
double TokensPerSecond(const LoadResult& result);
double PromptTokensPerSecond(const LoadResult& result);
double RequestsPerSecond(const LoadResult& result);

// Why the figures do not say what they seem to, for people; empty if they do.
std::vector<std::string> Objections(const LoadResult& result);

// What is worth knowing beside the figures, for people.
std::vector<std::string> Remarks(const LoadResult& result);

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

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_H_
