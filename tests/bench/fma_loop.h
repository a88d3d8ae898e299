#ifndef STEADYSTATE_TESTS_BENCH_FMA_LOOP_H_
#define STEADYSTATE_TESTS_BENCH_FMA_LOOP_H_

#include <cstddef>

namespace steadystate::bench {

// Multiplies and adds within registers, on the best SIMD target, and returns
// how many flop that was: no float32 kernel can be faster.
double FmaLoop(size_t rounds);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_FMA_LOOP_H_
