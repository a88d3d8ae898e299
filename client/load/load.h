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
#include "client/load/load_options.h"
#include "client/load/server_watch.h"
#include "client/load/tally.h"
#include "steadystate/client.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {

// What a run of load came to.
struct LoadResult {
  LoadOptions options;
  v1::Model model;
  Tally tally;
  absl::Duration window;  // of what was measured, as it turned out
  bool interrupted = false;
  bool going_away = false;  // the server shut down, which ended the run

  uint64_t sessions_created = 0;  // at the start
  absl::Status refusal;           // of the last one that could not be
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

  double mean_prompt_tokens = 0;  // that requests were to have
  size_t peak_calls = 0;          // requests under way at once, at most
  // What the server says of itself, if it was asked.
  std::optional<ServerUse> server;
};

// Rates within the window, per second.
double TokensPerSecond(const LoadResult& result);
double PromptTokensPerSecond(const LoadResult& result);
double RequestsPerSecond(const LoadResult& result);
// Of good requests, by the time at which they were to be sent.
double Goodput(const LoadResult& result);

// Requests that were to be sent in the window.
uint64_t RequestsDue(const LoadResult& result);
// The share of them that was good; 0 if there was none.
double SloAttainment(const LoadResult& result);
// True if there is no objective, or enough requests were good.
bool MeetsSlo(const LoadResult& result);

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
