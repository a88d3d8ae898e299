#ifndef STEADYSTATE_TESTS_BENCH_BANDWIDTH_H_
#define STEADYSTATE_TESTS_BENCH_BANDWIDTH_H_

#include <cstddef>

#include "kernels/thread_pool.h"
#include "tests/bench/samples.h"

namespace steadystate::bench {

// Rates are shown in units of that many bytes or operations a second.
inline constexpr double kGiga = 1e9;

// How fast some memory can be read, and read and written back, by a team of
// threads that share it in contiguous parts: what streams of weights and states
// are measured against.
class MemoryProbe {
 public:
  // Borrows x[0, floats), 64-byte aligned, and the pool. Finds out whether
  // stores past the caches are the faster ones here.
  // REQUIRES: floats is a multiple of 256 pool.size().
  MemoryProbe(float* x, size_t floats, ThreadPool& pool);

  // One pass over it all; returns bytes per second. Reading and writing a byte
  // counts as two.
  double Read();
  double ReadWrite();

 private:
  double ReadWriteWith(void (*loop)(size_t n, float factor, float* x));

  float* const x_;
  const size_t floats_;
  ThreadPool& pool_;
  bool past_caches_ = false;
};

// Bandwidths of DRAM with a team of threads, in bytes per second.
struct Bandwidth {
  Samples read;
  Samples read_write;
};

// Over `bytes` of memory of its own, many times the caches' size.
Bandwidth MeasureBandwidth(size_t threads, size_t bytes, size_t repetitions);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_BANDWIDTH_H_
