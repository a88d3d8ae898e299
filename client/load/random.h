#ifndef STEADYSTATE_CLIENT_LOAD_RANDOM_H_
#define STEADYSTATE_CLIENT_LOAD_RANDOM_H_

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

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_RANDOM_H_
