#ifndef STEADYSTATE_SERVER_MODEL_PHASE_TIMER_H_
#define STEADYSTATE_SERVER_MODEL_PHASE_TIMER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "server/model/model.h"

namespace steadystate {

enum class Phase : uint8_t { kOther, kProjection, kRecurrence };

// Adds up the time spent in each phase: one clock reading per change.
// Thread-compatible.
class PhaseTimer {
 public:
  // Begins to measure; what passed since the last Enter does not count.
  void Start() {
    since_ = std::chrono::steady_clock::now();
    current_ = Phase::kOther;
  }

  // Enters `next` and returns the phase that was left.
  Phase Enter(Phase next) {
    const auto now = std::chrono::steady_clock::now();
    spent_[static_cast<size_t>(current_)] += now - since_;
    since_ = now;
    return std::exchange(current_, next);
  }

  // What was measured since the last Take.
  PhaseTimes Take() {
    const PhaseTimes times = {.projection = Spent(Phase::kProjection),
                              .recurrence = Spent(Phase::kRecurrence),
                              .other = Spent(Phase::kOther)};
    spent_ = {};
    return times;
  }

 private:
  absl::Duration Spent(Phase phase) const {
    return absl::FromChrono(spent_[static_cast<size_t>(phase)]);
  }

  std::chrono::steady_clock::time_point since_;
  Phase current_ = Phase::kOther;
  std::array<std::chrono::nanoseconds, 3> spent_{};
};

// Counts the length of a scope towards a phase.
class PhaseScope {
 public:
  PhaseScope(PhaseTimer& timer, Phase phase)
      : timer_(timer), outer_(timer.Enter(phase)) {}
  ~PhaseScope() { timer_.Enter(outer_); }
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  PhaseTimer& timer_;
  const Phase outer_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_MODEL_PHASE_TIMER_H_
