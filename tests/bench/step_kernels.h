#ifndef STEADYSTATE_TESTS_BENCH_STEP_KERNELS_H_
#define STEADYSTATE_TESTS_BENCH_STEP_KERNELS_H_

#include <cstddef>
#include <span>
#include <vector>

namespace steadystate::bench {

// The inputs that the step kernels take of one token, for heads of K x V.
struct StepInputs {
  StepInputs(size_t key_width, size_t value_width);

  size_t K;
  size_t V;
  std::vector<float> decay_k, small_k, minus_k, q, k;  // f32[K]
  std::vector<float> decay_v, small_v, v;              // f32[V]
  std::vector<float> rate;                             // f32[K, V]
  std::vector<double> decay_f64;                       // f64[K]
};

// A recurrence kernel that advances one head by one token.
struct StepKernel {
  const char* name;
  size_t floats_per_element;  // of a state of K x V elements
  void (*step)(const StepInputs& in, float* state, float* o);
};

std::span<const StepKernel> StepKernels();

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_STEP_KERNELS_H_
