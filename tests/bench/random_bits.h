#ifndef STEADYSTATE_TESTS_BENCH_RANDOM_BITS_H_
#define STEADYSTATE_TESTS_BENCH_RANDOM_BITS_H_

#include <cstdint>

namespace steadystate::bench {

// 64 random bits as a function of a seed and a counter (splitmix64, Steele et
// al. 2014): the same everywhere, from any place on.
constexpr uint64_t RandomBits(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_RANDOM_BITS_H_
