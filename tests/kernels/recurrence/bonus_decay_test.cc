// Goal: the step of a readout before the update is its formula, column by
// column, at any size and over any time. Method: against the formula in double,
// on every target, and numbers computed by hand.

#include "kernels/recurrence/bonus_decay.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/golden_tokens.h"
#include "tests/kernels/recurrence/step_checks.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate {
namespace {

class BonusDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(BonusDecayTest);

// decay, bonus, r, k and v.
StepInputs Inputs(Floats decay, size_t V, Numbers& numbers) {
  StepInputs inputs;
  const size_t K = decay.size();
  inputs.of_keys.push_back(std::move(decay));
  for (int i = 0; i < 3; ++i) {
    inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  }
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

StepInputs Random(size_t K, size_t V, Numbers& numbers) {
  return Inputs(numbers.Uniform(K, 0.0f, 1.0f), V, numbers);
}

StepInputs Saturated(size_t V, Numbers& numbers) {
  const float decay[] = {0.0f, 1e-38f, 1.0f, 1.0f, 0.9999f, 0.8f};
  return Inputs(Floats(decay), V, numbers);
}

StepUnderTest UnderTest() {
  StepUnderTest step;
  step.random = Random;
  step.saturated = Saturated;
  step.o_tolerance = 8e-7;  // o is not scaled by an eighth as elsewhere
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    BonusDecayStep(K, V, {in.of_keys[0].data()}, in.of_keys[1].data(),
                   in.of_keys[2].data(), in.of_keys[3].data(),
                   in.of_values[0].data(), state, o);
  };
  step.reference = [](const StepInputs& in, std::vector<double>& state) {
    return BonusDecayReference(in.of_keys[0], in.of_keys[1], in.of_keys[2],
                               in.of_keys[3], in.of_values[0], state);
  };
  return step;
}

TEST_P(BonusDecayTest, GoldenRwkv6) {
  const float bonus[] = {0.3f, -0.2f};
  const double golden[][2] = {
      {0.25, 0.5}, {1.9125, 3.10625}, {-0.306569, 1.925925}};
  float state[4] = {};
  for (size_t t = 0; t < 3; ++t) {
    const float decay[] = {std::exp(kGoldenKeyLogDecay[t][0]),
                           std::exp(kGoldenKeyLogDecay[t][1])};
    float o[2];
    BonusDecayStep(2, 2, {decay}, bonus, kGoldenQ[t], kGoldenK[t], kGoldenV[t],
                   state, o);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(BonusDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(UnderTest(), 71);
}

TEST_P(BonusDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(UnderTest(), 72);
}

TEST_P(BonusDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(UnderTest(), 73);
}

TEST_P(BonusDecayTest, TwoPartsOfADecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  ExpectTwoPartsOfADecayCount(
      GetParam(), [&](Decays decay, float* state, float* o) {
        BonusDecayStep(kShape.K, kShape.V, decay, keys.data(), keys.data(),
                       keys.data(), values.data(), state, o);
      });
}

}  // namespace
}  // namespace steadystate
