#ifndef STEADYSTATE_TESTS_BENCH_STEP_KERNELS_H_
#define STEADYSTATE_TESTS_BENCH_STEP_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/step.h"
#include "kernels/state/rounding_noise.h"

namespace steadystate::bench {

// The inputs that the step kernels take of one token, for heads of K x V.
struct StepInputs {
  StepInputs(size_t key_width, size_t value_width);

  size_t K;
  size_t V;
  std::vector<float> decay_k, decay_low, small_k, minus_k, q, k;  // f32[K]
  std::vector<float> decay_v, decay_v_low, small_v, v;            // f32[V]
  std::vector<float> rate;                                        // f32[K, V]
  std::vector<double> decay_f64;                                  // f64[K]
  // Of states in 16 bits; to make it is no part of the kernel.
  std::vector<uint32_t> row_noise;     // u32[K]
  std::vector<uint32_t> column_noise;  // u32[V]

  Decays key_decays() const { return {decay_k.data(), decay_low.data()}; }
  Decays value_decays() const { return {decay_v.data(), decay_v_low.data()}; }
  RoundingNoise noise() const {
    return {.rows = row_noise.data(), .columns = column_noise.data()};
  }
};

// A recurrence kernel that advances, or reads, one head by one token. `next` is
// the state of the head that comes after, or null; o is f32[OutputFloats].
struct StepKernel {
  const char* name;
  size_t (*state_bytes)(size_t K, size_t V);
  void (*step)(const StepInputs& in, std::byte* state, float* o,
               const std::byte* next);
  bool writes = true;  // the state that it has read
};

std::span<const StepKernel> StepKernels();

// The most that a kernel gives out of a head, or of its keys.
size_t OutputFloats(size_t K, size_t V);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_STEP_KERNELS_H_
