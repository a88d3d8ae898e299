#ifndef STEADYSTATE_CLIENT_LOAD_TALLY_H_
#define STEADYSTATE_CLIENT_LOAD_TALLY_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace steadystate::client {

// Counts durations in buckets whose width is a fixed share of their value, so
// that any quantile is known to within 1 % in a memory of fixed size, however
// many samples there are. Histograms of several streams add up without loss;
// their quantiles would not. Thread-compatible.
class Histogram {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // Durations from here on (18 minutes) share the last bucket; negative ones
  // count as 0.
  static constexpr uint64_t kLimitNanoseconds = uint64_t{1} << 40;

  void Record(Nanoseconds duration, uint64_t times = 1);
  void Merge(const Histogram& other);

  uint64_t count() const { return count_; }

  // Exact. 0 if there is no sample.
  Nanoseconds max() const;
  Nanoseconds mean() const;

  // The smallest duration that the share `quantile` of the samples do not
  // exceed, to within 1 %; 0 if there is no sample.
  // REQUIRES: 0 <= quantile <= 1.
  Nanoseconds Quantile(double quantile) const;

 private:
  // Each power of two is cut in 2^kBits buckets; below 2^kBits each nanosecond
  // has its own. The middle of a bucket is within 1/2^(kBits+1) of its values.
  static constexpr size_t kBits = 6;
  static constexpr size_t kOctaves = 40 - kBits;
  static constexpr size_t kBuckets = (kOctaves + 1) << kBits;

  static size_t BucketOf(uint64_t nanoseconds);
  static uint64_t MiddleOf(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
  double sum_ = 0;
};

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
  // Requests without (all of) their answer at the end. Latencies have what they
  // had waited by then, which is the least that they can be.
  uint64_t window_unanswered = 0;
  uint64_t window_drawn_tokens = 0;
  uint64_t window_prompt_tokens = 0;  // of prompts, without what is fed back
  Histogram time_to_first_token;
  Histogram inter_token;
  Histogram request;
  Histogram server_queue;
  Histogram server_compute;

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
