#ifndef STEADYSTATE_TESTS_KERNELS_RECURRENCE_STEP_CHECKS_H_
#define STEADYSTATE_TESTS_KERNELS_RECURRENCE_STEP_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/recurrence/step.h"
#include "tests/kernels/numbers.h"

namespace steadystate {

// What a recurrence takes of one token, in the order of its parameters.
struct StepInputs {
  std::vector<Floats> of_keys;      // each f32[K]
  std::vector<Floats> of_values;    // each f32[V]
  std::vector<Floats> of_elements;  // each f32[K, V]
};

// A step kernel and its formula in double, behind one face.
struct StepUnderTest {
  // Inputs of one token, of which decays are below one and the others about
  // as large as one.
  std::function<StepInputs(size_t K, size_t V, Numbers&)> random;
  // The same, gates so far open or shut as they go, in heads of six keys.
  std::function<StepInputs(size_t V, Numbers&)> saturated;
  std::function<void(size_t K, size_t V, const StepInputs&, float* state,
                     float* o)>
      run;
  std::function<std::vector<double>(const StepInputs&, std::vector<double>&)>
      reference;
  size_t planes = 1;  // the state is f32[planes, K, V]
  // After five random tokens: of an element of o, in units of sqrt(K).
  double o_tolerance = 1e-7;
  double state_tolerance = 1e-6;
};

// Kernel and reference side by side over five tokens, for small and odd shapes
// and every length of a tail.
void ExpectStepMatchesItsReference(const StepUnderTest& step, uint64_t seed);

// Each column of a wide head has the bits that it has alone.
void ExpectColumnsAreIndependent(const StepUnderTest& step, uint64_t seed);

// Ten thousand saturated tokens: finite, and off by no more than the rounding
// of every step adds up to, 6e-8 sqrt(steps) of the largest element.
void ExpectSaturatedGatesAreRight(const StepUnderTest& step, uint64_t seed);

// A step's decays may be sums of two floats: what a float lacks of a decay near
// one is not lost over the tokens that a state remembers. `fade` moves a state,
// f32[planes, K, V] of this shape, by a token that brings nothing.
struct FadingShape {
  size_t K = 3;
  size_t V = 37;
};
void ExpectTwoPartsOfADecayCount(
    int64_t target,
    const std::function<void(Decays decay, float* state, float* o)>& fade,
    size_t planes = 1);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_KERNELS_RECURRENCE_STEP_CHECKS_H_
