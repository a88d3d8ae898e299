#include "client/load/arrivals.h"

#include <cmath>

namespace steadystate::client {
namespace {

// A sequence that no session draws its prompts from.
constexpr uint64_t kStream = ~uint64_t{0};
// A gap that would not fit a clock is as good as none: two centuries.
constexpr double kMaxSeconds = 6e9;

}  // namespace

PoissonArrivals::PoissonArrivals(double rate_per_second, uint64_t seed)
    : mean_gap_seconds_(1 / rate_per_second), random_(seed, kStream) {}

std::chrono::nanoseconds PoissonArrivals::Next() {
  seconds_ -= std::log(random_.Unit()) * mean_gap_seconds_;
  return std::chrono::nanoseconds(
      std::llround(std::fmin(seconds_, kMaxSeconds) * 1e9));
}

}  // namespace steadystate::client
