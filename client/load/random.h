#ifndef STEADYSTATE_CLIENT_LOAD_RANDOM_H_
#define STEADYSTATE_CLIENT_LOAD_RANDOM_H_

#include <chrono>
#include <cmath>
#include <cstdint>

namespace steadystate::client {

// SplitMix64: eight bytes of state, so that each of many sessions has its own,
// and the same numbers with every standard library. Thread-compatible.
class Random {
 public:
  // `stream`: independent sequences of one seed.
  Random(uint64_t seed, uint64_t stream) : state_(Mix(seed) ^ Mix(~stream)) {}

  uint64_t Next() { return Mix(state_ += kStep); }

  // In [0, bound). The bias of a bound below 2^32 is less than 2^-32.
  // REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return Next() % bound; }

  // In (0, 1].
  double Unit() { return static_cast<double>((Next() >> 11) + 1) * 0x1.0p-53; }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

  static uint64_t Mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
  }

  uint64_t state_;
};

// The times at which requests of a Poisson process arrive: gaps are independent
// and exponentially distributed, as of many users who know nothing of each
// other nor of the server's speed. The same seed gives the same times.
// Thread-compatible.
class PoissonArrivals {
 public:
  // REQUIRES: rate_per_second > 0.
  PoissonArrivals(double rate_per_second, uint64_t seed)
      : mean_gap_seconds_(1 / rate_per_second), random_(seed, kStream) {}

  // When the next request arrives, counted from the beginning. Never decreases.
  std::chrono::nanoseconds Next() {
    seconds_ -= std::log(random_.Unit()) * mean_gap_seconds_;
    return std::chrono::nanoseconds(
        std::llround(std::fmin(seconds_, kMaxSeconds) * 1e9));
  }

 private:
  // A sequence that no session draws its prompts from.
  static constexpr uint64_t kStream = ~uint64_t{0};
  // A gap that would not fit a clock is as good as none: two centuries.
  static constexpr double kMaxSeconds = 6e9;

  const double mean_gap_seconds_;
  Random random_;
  double seconds_ = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_RANDOM_H_
