// Goal: the step of a complex decay per key is its formula, column by
// column, at any size and over any time. Method: against the formula in double,
// on every target.

#include "kernels/recurrence/complex_key_decay.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/step_checks.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate {
namespace {

class ComplexKeyDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ComplexKeyDecayTest);

// decay_re, decay_im, q, k and v.
StepInputs Inputs(const Floats& size, const Floats& phase, size_t V,
                  Numbers& numbers) {
  StepInputs inputs;
  const size_t K = size.size();
  Floats re(K);
  Floats im(K);
  for (size_t i = 0; i < K; ++i) {
    re[i] = size[i] * std::cos(phase[i]);
    im[i] = size[i] * std::sin(phase[i]);
  }
  inputs.of_keys.push_back(std::move(re));
  inputs.of_keys.push_back(std::move(im));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

StepInputs Random(size_t K, size_t V, Numbers& numbers) {
  return Inputs(numbers.Uniform(K, 0.0f, 1.0f), numbers.Uniform(K, -3.2f, 3.2f),
                V, numbers);
}

// Forgotten at once, kept while it turns, and the like.
StepInputs Saturated(size_t V, Numbers& numbers) {
  const float size[] = {0.0f, 1e-38f, 1.0f, 1.0f, 1.0f, 0.8f};
  const float phase[] = {1.0f, 1.0f, 0.0f, 1.0f, 3.1415927f, -2.0f};
  return Inputs(Floats(size), Floats(phase), V, numbers);
}

StepUnderTest UnderTest() {
  StepUnderTest step;
  step.random = Random;
  step.saturated = Saturated;
  step.planes = 2;
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    ComplexKeyDecayStep(K, V, 0.125f, {in.of_keys[0].data()},
                        {in.of_keys[1].data()}, in.of_keys[2].data(),
                        in.of_keys[3].data(), in.of_values[0].data(), state, o);
  };
  step.reference = [](const StepInputs& in, std::vector<double>& state) {
    return ComplexKeyDecayReference(0.125, in.of_keys[0], in.of_keys[1],
                                    in.of_keys[2], in.of_keys[3],
                                    in.of_values[0], state);
  };
  return step;
}

// A quarter turn a step, in exact numbers.
TEST_P(ComplexKeyDecayTest, TurnsRealIntoImaginaryAndBack) {
  const float re[] = {0.0f};
  const float im[] = {1.0f};
  const float one[] = {1.0f};
  const float zero[] = {0.0f};
  float state[2] = {};
  float o = 0;
  ComplexKeyDecayStep(1, 1, 3.0f, {re}, {im}, one, one, one, state, &o);
  EXPECT_EQ(o, 3.0f);
  const float expected[][3] = {{0.0f, 1.0f, 0.0f},
                               {-1.0f, 0.0f, -3.0f},
                               {0.0f, -1.0f, 0.0f},
                               {1.0f, 0.0f, 3.0f}};
  for (const auto& [real, imaginary, read] : expected) {
    ComplexKeyDecayStep(1, 1, 3.0f, {re}, {im}, one, zero, one, state, &o);
    EXPECT_EQ(state[0], real);
    EXPECT_EQ(state[1], imaginary);
    EXPECT_EQ(o, read);
  }
}

TEST_P(ComplexKeyDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(UnderTest(), 67);
}

TEST_P(ComplexKeyDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(UnderTest(), 68);
}

TEST_P(ComplexKeyDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(UnderTest(), 69);
}

TEST_P(ComplexKeyDecayTest, TwoPartsOfARealDecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  const auto fade = [&](Decays decay, float* state, float* o) {
    ComplexKeyDecayStep(kShape.K, kShape.V, 1, decay, {keys.data()},
                        keys.data(), keys.data(), values.data(), state, o);
  };
  ExpectTwoPartsOfADecayCount(GetParam(), fade, 2);
}

// Four quarter turns make a decay real.
TEST_P(ComplexKeyDecayTest, TwoPartsOfAnImaginaryDecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  const auto fade = [&](Decays decay, float* state, float* o) {
    ComplexKeyDecayStep(kShape.K, kShape.V, 1, {keys.data()}, decay,
                        keys.data(), keys.data(), values.data(), state, o);
  };
  ExpectTwoPartsOfADecayCount(GetParam(), fade, 2);
}

}  // namespace
}  // namespace steadystate
