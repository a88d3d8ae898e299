#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_RESULT_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/load/histogram.h"
#include "client/load/load_options.h"
#include "client/load/tally.h"
#include "steadystate/v1/model.pb.h"

namespace steadystate::client {

// What a run of load came to.
struct LoadResult {
  LoadOptions options;
  v1::Model model;
  Tally tally;
  absl::Duration window;  // of what was measured, as it turned out
  bool interrupted = false;

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

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_RESULT_H_
