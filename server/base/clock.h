#ifndef STEADYSTATE_SERVER_BASE_CLOCK_H_
#define STEADYSTATE_SERVER_BASE_CLOCK_H_

#include <compare>

#include "absl/time/time.h"

namespace steadystate {

// A point of steady time, which goes on evenly when somebody sets the time of
// day: what is waited for, what expires and how long something took is measured
// in it. Its zero means nothing, and it does not mix with absl::Time.
class SteadyTime {
 public:
  // Its zero.
  constexpr SteadyTime() = default;

  static constexpr SteadyTime FromZero(absl::Duration since_zero) {
    return SteadyTime(since_zero);
  }
  static constexpr SteadyTime InfinitePast() {
    return SteadyTime(-absl::InfiniteDuration());
  }
  static constexpr SteadyTime InfiniteFuture() {
    return SteadyTime(absl::InfiniteDuration());
  }

  constexpr absl::Duration since_zero() const { return since_zero_; }

  friend SteadyTime operator+(SteadyTime time, absl::Duration by) {
    return SteadyTime(time.since_zero_ + by);
  }
  friend SteadyTime operator-(SteadyTime time, absl::Duration by) {
    return SteadyTime(time.since_zero_ - by);
  }
  friend absl::Duration operator-(SteadyTime end, SteadyTime start) {
    return end.since_zero_ - start.since_zero_;
  }
  friend bool operator==(SteadyTime a, SteadyTime b) {
    return a.since_zero_ == b.since_zero_;
  }
  friend std::strong_ordering operator<=>(SteadyTime a, SteadyTime b) {
    if (a.since_zero_ < b.since_zero_) return std::strong_ordering::less;
    return a == b ? std::strong_ordering::equal : std::strong_ordering::greater;
  }

 private:
  constexpr explicit SteadyTime(absl::Duration since_zero)
      : since_zero_(since_zero) {}

  absl::Duration since_zero_;
};

// One moment by both clocks: `wall` is for people and never reckoned with.
struct Moment {
  SteadyTime steady;
  absl::Time wall;
};

// Where the server reads the time; tests pass a clock of their own.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  // Steady time; the time of day.
  virtual SteadyTime Now() const = 0;
  virtual absl::Time WallNow() const = 0;

  // Both.
  Moment Read() const { return {.steady = Now(), .wall = WallNow()}; }

  // The machine's clock. Lives for ever.
  static const Clock& Real();
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_CLOCK_H_
