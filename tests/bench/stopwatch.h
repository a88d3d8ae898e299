#ifndef STEADYSTATE_TESTS_BENCH_STOPWATCH_H_
#define STEADYSTATE_TESTS_BENCH_STOPWATCH_H_

#include <chrono>
#include <cstddef>

namespace steadystate::bench {

using BenchClock = std::chrono::steady_clock;

inline double Seconds(BenchClock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Seconds that one call takes.
template <typename Work>
double TimeOnce(const Work& work) {
  const BenchClock::time_point start = BenchClock::now();
  work();
  return Seconds(BenchClock::now() - start);
}

// How many calls take at least `seconds`; a power of two. Warms up besides.
template <typename Work>
size_t CallsFor(double seconds, const Work& work) {
  work();
  size_t calls = 1;
  while (TimeOnce([&] {
           for (size_t i = 0; i < calls; ++i) work();
         }) < seconds) {
    calls *= 2;
  }
  return calls;
}

// Seconds for each of `calls` calls, on the average.
template <typename Work>
double TimeEach(size_t calls, const Work& work) {
  return TimeOnce([&] {
           for (size_t i = 0; i < calls; ++i) work();
         }) /
         static_cast<double>(calls);
}

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_STOPWATCH_H_
