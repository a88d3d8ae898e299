// Goal: the step of a decay of rank one is its formula, column by
// column, at any size and over any time. Method: against the formula in double,
// on every target.

#include "kernels/recurrence/outer_decay.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/step_checks.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate {
namespace {

class OuterDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(OuterDecayTest);

// decay_k, q, k and decay_v, v.
StepInputs Inputs(Floats decay_k, Floats decay_v, size_t V, Numbers& numbers) {
  StepInputs inputs;
  const size_t K = decay_k.size();
  inputs.of_keys.push_back(std::move(decay_k));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_values.push_back(std::move(decay_v));
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

StepInputs Random(size_t K, size_t V, Numbers& numbers) {
  return Inputs(numbers.Uniform(K, 0.0f, 1.0f), numbers.Uniform(V, 0.0f, 1.0f),
                V, numbers);
}

StepInputs Saturated(size_t V, Numbers& numbers) {
  const float decay_k[] = {0.0f, 1e-38f, 1.0f, 1.0f, 0.9999f, 0.8f};
  Floats decay_v(V);
  for (size_t j = 0; j < V; ++j) decay_v[j] = decay_k[(j + 2) % 6];
  return Inputs(Floats(decay_k), std::move(decay_v), V, numbers);
}

StepUnderTest UnderTest() {
  StepUnderTest step;
  step.random = Random;
  step.saturated = Saturated;
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    OuterDecayStep(K, V, 0.125f, {in.of_keys[0].data()},
                   {in.of_values[0].data()}, in.of_keys[1].data(),
                   in.of_keys[2].data(), in.of_values[1].data(), state, o);
  };
  step.reference = [](const StepInputs& in, std::vector<double>& state) {
    return OuterDecayReference(0.125, in.of_keys[0], in.of_values[0],
                               in.of_keys[1], in.of_keys[2], in.of_values[1],
                               state);
  };
  return step;
}

TEST_P(OuterDecayTest, KeepsWhatBothAxesKeepOnly) {
  const float decay_k[] = {1.0f, 0.5f};
  const float decay_v[] = {0.25f, 1.0f, 0.0f};
  const float nothing[3] = {};
  const float q[] = {1.0f, 10.0f};
  float state[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  float o[3];
  OuterDecayStep(2, 3, 2.0f, {decay_k}, {decay_v}, q, nothing, nothing, state,
                 o);
  const float kept[] = {0.25f, 2.0f, 0.0f, 0.5f, 2.5f, 0.0f};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(state[i], kept[i]) << i;
  EXPECT_EQ(o[0], 10.5f);
  EXPECT_EQ(o[1], 54.0f);
  EXPECT_EQ(o[2], 0.0f);
}

TEST_P(OuterDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(UnderTest(), 61);
}

TEST_P(OuterDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(UnderTest(), 62);
}

TEST_P(OuterDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(UnderTest(), 63);
}

TEST_P(OuterDecayTest, TwoPartsOfEitherDecayCount) {
  constexpr FadingShape kShape;
  const Floats nothing(kShape.V);
  Floats ones(kShape.V), high(kShape.V), low(kShape.V);
  for (float& value : ones) value = 1;
  ExpectTwoPartsOfADecayCount(GetParam(), [&](Decays decay, float* state,
                                              float* o) {
    OuterDecayStep(kShape.K, kShape.V, 1, decay, {ones.data()}, nothing.data(),
                   nothing.data(), nothing.data(), state, o);
  });
  ExpectTwoPartsOfADecayCount(
      GetParam(), [&](Decays decay, float* state, float* o) {
        for (float& value : high) value = decay.high[0];
        for (float& value : low) value = decay.low[0];
        OuterDecayStep(kShape.K, kShape.V, 1, {ones.data()},
                       {high.data(), low.data()}, nothing.data(),
                       nothing.data(), nothing.data(), state, o);
      });
}

}  // namespace
}  // namespace steadystate
