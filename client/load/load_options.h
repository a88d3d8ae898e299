#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_OPTIONS_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_OPTIONS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/arrivals.h"
#include "client/load/lengths.h"
#include "client/load/slo.h"
#include "steadystate/v1/session.pb.h"

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
  // Stream i is on connection i % connections, and so is session i of Generate.
  uint64_t connections = 1;
  // Of random tokens, unless there are prompts.
  Lengths prompt_tokens = 16;
  // Texts, at least one: request i has number i % size(). nullptr: none.
  std::shared_ptr<const std::vector<std::string>> prompts;
  Lengths generate_tokens = 32;

  // Open loop: requests arrive by themselves, by at most one of these.
  double rate = 0;            // requests per second of all sessions together
  std::vector<Stage> stages;  // a rate that changes
  // When each arrives, at least one; nullptr: no trace.
  std::shared_ptr<const std::vector<std::chrono::nanoseconds>> trace;
  // By none of them: each session begins its next request when the last one has
  // ended (closed loop).

  // Of `rate` and `stages`.
  ArrivalProcess arrivals = ArrivalProcess::kPoisson;

  // Left out of latencies and rates.
  absl::Duration warmup = absl::Seconds(2);
  // Of what is measured. 0: until interrupted.
  absl::Duration duration = absl::Seconds(10);
  // How long requests that are under way may go on after that.
  absl::Duration drain = absl::Seconds(10);
  // The later the tester itself sends, the less the figures say.
  absl::Duration max_send_lag = absl::Milliseconds(1);
  // What requests may take. Empty: whatever they take.
  Slo slo;
  // Where the server's metrics are, as HttpGet takes it. Empty: not known.
  std::string metrics_url;
  uint64_t seed = 1;
  // What of the sessions outlives what. Absent: they are ephemeral, and a
  // server's store has nothing to do with them.
  std::optional<v1::Session::Durability> durability;

  bool open_loop() const {
    return rate > 0 || !stages.empty() || trace != nullptr;
  }
  // Calls that there may be at once.
  uint64_t calls() const { return rpc == LoadRpc::kStep ? streams : sessions; }
};

// INVALID_ARGUMENT, naming option, value and bound, for people.
absl::Status Validate(const LoadOptions& options);

// Prompts of a file, one to a line, without empty lines. INVALID_ARGUMENT if
// there is none, or if there are more than kMaxPrompts.
inline constexpr size_t kMaxPrompts = 10000;
absl::StatusOr<std::vector<std::string>> ParsePrompts(absl::string_view text);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_OPTIONS_H_
