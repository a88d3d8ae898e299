#ifndef STEADYSTATE_TESTS_TESTING_MANUAL_CLOCK_H_
#define STEADYSTATE_TESTS_TESTING_MANUAL_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace steadystate {

// A clock that stands still until it is moved. Thread-safe.
class ManualClock final : public Clock {
 public:
  SteadyTime Now() const override {
    return SteadyTime::FromZero(absl::Nanoseconds(steady_.load()));
  }
  absl::Time WallNow() const override {
    return absl::FromUnixNanos(wall_.load());
  }

  // Time passes.
  void Advance(absl::Duration by) {
    steady_ += absl::ToInt64Nanoseconds(by);
    wall_ += absl::ToInt64Nanoseconds(by);
  }

  // Somebody sets the time of day, forward or back. No time passes.
  void SetWall(absl::Duration by) { wall_ += absl::ToInt64Nanoseconds(by); }

 private:
  // Far from where arithmetic with times is special: a machine that has been up
  // for a while, some day in 2026.
  std::atomic<int64_t> steady_{1'000'000'000'000'000};
  std::atomic<int64_t> wall_{1'780'000'000'000'000'000};
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_MANUAL_CLOCK_H_
