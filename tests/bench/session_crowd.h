#ifndef STEADYSTATE_TESTS_BENCH_SESSION_CROWD_H_
#define STEADYSTATE_TESTS_BENCH_SESSION_CROWD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "steadystate/client.h"
#include "steadystate/v1/generation.pb.h"
#include "tests/bench/samples.h"

namespace steadystate::bench {

struct CrowdOptions {
  size_t sessions = 0;
  size_t streams = 1;  // that carry them; at most `sessions`
  size_t steps = 10;   // of each session
  size_t checked = 0;  // sessions whose logits are kept; at most `sessions`
  uint64_t vocab_size = 0;
  uint64_t seed = 1;
};

// Many sessions of a server that all live at once. Session i is on stream
// i % streams, each stream steps its sessions in random order, and what a step
// absorbs is a function of seed, session and step: mostly one token, sometimes
// up to 24.
class SessionCrowd {
 public:
  SessionCrowd(client::Client client, const CrowdOptions& options);

  // The server has been started anew.
  void Reconnect(client::Client client) { client_ = std::move(client); }

  // Makes all sessions.
  absl::Status Create();

  // Steps all of them; each stream has a few steps under way.
  absl::Status Step();

  struct Walk {
    size_t steps = SIZE_MAX;
    // From one step's beginning to the next one's.
    absl::Duration apart = absl::ZeroDuration();
    // Ends it; null: nobody does. Lent.
    const std::atomic<bool>* stopped = nullptr;
    uint64_t seed = 1;
  };
  // Steps sessions one after the other, chosen at random, each in a call of its
  // own. Returns the milliseconds of those steps whose sessions were stored.
  absl::StatusOr<Samples> StepAtRandom(const Walk& walk);
  // The same of the checked sessions, once each.
  absl::StatusOr<Samples> StepChecked();

  // Steps the checked sessions again, each alone: in a new session, while
  // nothing else happens. Returns how many of them answered other bytes than
  // among the crowd.
  absl::StatusOr<size_t> ReplayDiffering();

 private:
  // Does some work for each stream on a thread of its own.
  absl::Status OnEachStream(
      const std::function<absl::Status(size_t stream)>& work);
  absl::Status CreateOf(size_t stream);
  absl::Status StepOf(size_t stream);
  // A stream's steps as numbers of sessions, shuffled.
  std::vector<size_t> OrderOf(size_t stream) const;
  bool Checked(size_t session) const;
  v1::StepRequest Request(size_t session, size_t step) const;
  absl::Status StepOne(size_t session, Samples& stored_ms);
  absl::StatusOr<std::string> Replay(size_t session) const;

  client::Client client_;
  const CrowdOptions options_;
  std::vector<std::string> names_;    // by session
  std::vector<uint32_t> steps_;       // by session: asked for
  std::vector<std::string> answers_;  // by session: logits of all steps
};

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_SESSION_CROWD_H_
