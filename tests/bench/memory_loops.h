#ifndef STEADYSTATE_TESTS_BENCH_MEMORY_LOOPS_H_
#define STEADYSTATE_TESTS_BENCH_MEMORY_LOOPS_H_

#include <cstddef>

namespace steadystate::bench {

// The plainest loops over memory, on the best SIMD target: nothing that streams
// through memory can be faster. All need n to be a multiple of 256 and x to be
// 64-byte aligned.

// The sum of x.
float ReadLoop(size_t n, const float* x);

// x <- factor x, each element read once and written once.
void ReadWriteLoop(size_t n, float factor, float* x);

// The same, past the caches.
void ReadStreamLoop(size_t n, float factor, float* x);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_MEMORY_LOOPS_H_
