#ifndef STEADYSTATE_KERNELS_BURSTS_H_
#define STEADYSTATE_KERNELS_BURSTS_H_

#include <algorithm>
#include <chrono>

namespace steadystate {

// Decides whether sleepers are woken for a call. A burst is a run of calls that
// follow each other within `gap`, the time after which the idle sleep. To wake
// somebody for one that is over before he has got anywhere only makes him spin
// beside nothing, on a processor that others could use. Thread-compatible.
class Bursts {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Bursts(Clock::duration gap) : gap_(gap) {}

  // A call begins. True if its burst has lasted, or unless most of those before
  // were short.
  bool WorthWaking(Clock::time_point start) {
    if (start - end_ > gap_) {
      const int change = busy_ < kShortBurst ? 1 : -kLongBurstWeight;
      shortness_ = std::clamp(shortness_ + change, 0, kMaxShortness);
      busy_ = Clock::duration::zero();
    }
    return shortness_ < kShort || busy_ >= kShortBurst;
  }

  // That call has ended.
  void CallEnded(Clock::time_point start, Clock::time_point end) {
    end_ = end;
    busy_ += end - start;
  }

 private:
  // About what it takes until somebody woken has taken a share of the work.
  static constexpr std::chrono::microseconds kShortBurst{100};
  // Some that are long because the caller lost its processor do not outweigh
  // many that are short.
  static constexpr int kLongBurstWeight = 4;
  static constexpr int kShort = 32;
  static constexpr int kMaxShortness = 64;

  const Clock::duration gap_;
  Clock::time_point end_;   // of the last call
  Clock::duration busy_{};  // in calls of the current burst
  int shortness_ = 0;       // of the bursts before
};

}  // namespace steadystate

#endif  // STEADYSTATE_KERNELS_BURSTS_H_
