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
  absl::Time Now() const override {
    return absl::FromUnixNanos(nanoseconds_.load());
  }

  void Advance(absl::Duration by) {
    nanoseconds_ += absl::ToInt64Nanoseconds(by);
  }

 private:
  // Some day in 2026: far from where arithmetic with times is special.
  std::atomic<int64_t> nanoseconds_{1'780'000'000'000'000'000};
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_MANUAL_CLOCK_H_
