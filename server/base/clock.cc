#include "server/base/clock.h"

#include <chrono>

namespace steadystate {
namespace {

class RealClock final : public Clock {
 public:
  SteadyTime Now() const override {
    return SteadyTime::FromZero(
        absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()));
  }
  // absl::Now lags for seconds when the time of day is set.
  absl::Time WallNow() const override {
    return absl::FromChrono(std::chrono::system_clock::now());
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

}  // namespace steadystate
