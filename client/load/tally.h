#ifndef STEADYSTATE_CLIENT_LOAD_TALLY_H_
#define STEADYSTATE_CLIENT_LOAD_TALLY_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/load/histogram.h"
#include "client/load/timeline.h"

namespace steadystate::client {

// Latencies are differences of a clock that nobody sets.
using LoadClock = std::chrono::steady_clock;
using LoadTime = std::chrono::steady_clock::time_point;

// The part of a run that latencies and rates are about. Thread-safe.
class Window {
 public:
  Window(LoadTime begin, LoadTime end) : begin_(begin), end_(end) {}

  LoadTime begin() const { return begin_; }
  LoadTime end() const { return end_.load(std::memory_order_relaxed); }
  bool Contains(LoadTime time) const { return time >= begin_ && time < end(); }

  // Ends the window early, at an interruption.
  void Close(LoadTime now) { end_.store(now, std::memory_order_relaxed); }

 private:
  const LoadTime begin_;
  std::atomic<LoadTime> end_;
};

// Tokens as steadystate_tokens_total counts them on the server.
struct AbsorbedTokens {
  uint64_t prompt = 0;     // given; the tokens fed back by steps are, too
  uint64_t generated = 0;  // drawn by Generate
};

// What happened, counted. Every stream has one of its own, and they are merged
// at the end. Thread-compatible.
struct Tally {
  // Of the whole run, warm-up and drain included.
  uint64_t begun = 0;  // requests, as the next four
  uint64_t completed = 0;
  uint64_t failed = 0;
  uint64_t cut = 0;                // ended by the tester, at the end of the run
  uint64_t of_unknown_extent = 0;  // failed; how far they had come is not known
  uint64_t drawn_tokens = 0;
  AbsorbedTokens absorbed;
  // Error answers by reason, as steadystate_errors_total counts them.
  std::map<std::string, uint64_t> server_errors;
  // What went wrong on this side, or on the way.
  std::map<std::string, uint64_t> client_errors;
  // Calls and steps that the tester itself ended or stopped waiting for: the
  // server may count them as CANCELLED or DEADLINE_EXCEEDED, or not at all.
  uint64_t given_up = 0;

  // Of the window. Requests and steps belong to it if they were to be sent in
  // it, even if their answer came later; rates count what came in it.
  uint64_t window_completed = 0;
  uint64_t window_failed = 0;
  uint64_t window_good = 0;  // completed, and as the objective wants them
  // Requests without (all of) their answer at the end. Latencies have what they
  // had waited by then, which is the least that they can be.
  uint64_t window_unanswered = 0;
  uint64_t window_drawn_tokens = 0;
  uint64_t window_prompt_tokens = 0;  // of prompts, without what is fed back
  Histogram time_to_first_token;
  Histogram time_per_output_token;
  Histogram inter_token;
  Histogram request;
  Histogram server_queue;
  Histogram server_compute;
  // Of Generate: what first tokens took here, beyond what the server counts
  // from the call's arrival: the way, and the wait before the call was sent.
  Histogram outside_server;
  Timeline timeline;

  // Counts an error that a call or a step was answered with.
  void CountError(const absl::Status& status);

  // Counts a request that waited until `now` for an answer that never came.
  void CountUnanswered(LoadTime intended, LoadTime now, const Window& window);

  void Merge(const Tally& other);
};

// The name that an error is counted by: the server's reason, or the code of
// what the connection says, "UNAVAILABLE".
std::string ErrorName(const absl::Status& status);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_TALLY_H_
