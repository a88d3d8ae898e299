// Goal: the step of a decay for every element is its formula, column by
// column, at any size and over any time. Method: against the formula in double,
// on every target, and numbers computed by hand.

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/recurrence/decay_steps.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/golden_tokens.h"
#include "tests/kernels/recurrence/step_checks.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate::full_decay_test {
namespace {

class FullDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(FullDecayTest);

// q, k; step, v; rate.
StepInputs Inputs(size_t K, Floats rate, Floats step, Numbers& numbers) {
  StepInputs inputs;
  const size_t V = step.size();
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_values.push_back(std::move(step));
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  inputs.of_elements.push_back(std::move(rate));
  return inputs;
}

StepInputs Random(size_t K, size_t V, Numbers& numbers) {
  return Inputs(K, numbers.Uniform(K * V, 0.0f, 3.0f),
                numbers.Uniform(V, 0.0f, 2.0f), numbers);
}

// Exponents of 0, of less than an ulp of one, of all sizes and of -infinity.
StepInputs Saturated(size_t V, Numbers& numbers) {
  constexpr size_t K = 6;
  const float rates[] = {0.0f, 1e-30f, 1e-3f, 1.0f, 1e30f, 3e38f};
  const float steps[] = {0.0f, 1e-10f, 1.0f, 1e10f};
  Floats rate(K * V);
  for (size_t i = 0; i < K * V; ++i) rate[i] = rates[i / V];
  Floats step(V);
  for (size_t j = 0; j < V; ++j) step[j] = steps[j % 4];
  return Inputs(K, std::move(rate), std::move(step), numbers);
}

StepUnderTest UnderTest() {
  StepUnderTest step;
  step.random = Random;
  step.saturated = Saturated;
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    FullDecayStep({.K = K,
                   .V = V,
                   .scale = 0.125f,
                   .q = in.of_keys[0].data(),
                   .k = in.of_keys[1].data(),
                   .v = in.of_values[1].data(),
                   .o = o},
                  in.of_elements[0].data(), in.of_values[0].data(), state);
  };
  step.reference = [](const StepInputs& in, std::vector<double>& state) {
    return FullDecayReference(0.125, in.of_elements[0], in.of_values[0],
                              in.of_keys[0], in.of_keys[1], in.of_values[1],
                              state);
  };
  return step;
}

// Mamba's step with one rate for all: x = v, B = k, C = q, A_log = 0.2,
// D = 0.7.
TEST_P(FullDecayTest, GoldenStateSpace) {
  const double raw_step[] = {0.1, -1.0, 2.0};
  const double golden[][2] = {
      {0.7, 1.4}, {0.283374, 1.959139}, {-25.231588, 2.149250}};
  const float a = std::exp(0.2f);
  const float rate[] = {a, a, a, a};
  float state[4] = {};
  for (size_t t = 0; t < 3; ++t) {
    const auto step =
        static_cast<float>(std::log1p(std::exp(raw_step[t] + 0.05)));
    const float steps[] = {step, step};
    const float* const x = kGoldenV[t];
    const float v[] = {step * x[0], step * x[1]};
    float o[2];
    FullDecayStep(
        {.K = 2, .V = 2, .q = kGoldenQ[t], .k = kGoldenK[t], .v = v, .o = o},
        rate, steps, state);
    const float y[] = {o[0] + 0.7f * x[0], o[1] + 0.7f * x[1]};
    ExpectGolden(y, golden[t]);
  }
}

TEST_P(FullDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(UnderTest(), 64);
}

TEST_P(FullDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(UnderTest(), 65);
}

TEST_P(FullDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(UnderTest(), 66);
}

TEST_P(FullDecayTest, DecaysAreAccurateAndVanishBelowTheSmallestNormal) {
  const Floats x{std::span<const float>(ManyFiniteFloats())};
  const size_t n = x.size();
  Floats step(n);
  for (size_t j = 0; j < n; ++j) step[j] = std::abs(x[j]);
  const Floats zeros(n);
  Floats rate(n);
  Floats state(n);
  for (size_t j = 0; j < n; ++j) rate[j] = state[j] = 1.0f;
  Floats o(n);
  const float q = 1;
  const float k = 0;
  FullDecayStep(
      {.K = 1, .V = n, .q = &q, .k = &k, .v = zeros.data(), .o = o.data()},
      rate.data(), step.data(), state.data());
  for (size_t j = 0; j < n; ++j) {
    if (step[j] > 87.33f) {
      EXPECT_EQ(state[j], 0.0f) << step[j];
    } else {
      const double exact = std::exp(-static_cast<double>(step[j]));
      EXPECT_LE(UlpError(state[j], exact), 2.0) << step[j];
    }
  }
}

TEST_P(FullDecayTest, WhatADecayNearOneLacksIsNotRounded) {
  constexpr size_t kSteps = 4000;
  constexpr size_t V = 37;
  Floats rate(V), step(V), nothing(V), state(V), o(V);
  for (size_t j = 0; j < V; ++j) {
    rate[j] = 1.1f + 0.1f * static_cast<float>(j);
    step[j] = 7e-5f;
    state[j] = 1;
  }
  const float zero = 0;
  for (size_t t = 0; t < kSteps; ++t) {
    FullDecayStep({.K = 1,
                   .V = V,
                   .q = &zero,
                   .k = &zero,
                   .v = nothing.data(),
                   .o = o.data()},
                  rate.data(), step.data(), state.data());
  }
  for (size_t j = 0; j < V; ++j) {
    const double exact = std::exp(-static_cast<double>(rate[j]) *
                                  static_cast<double>(step[j]) * kSteps);
    // Rounded decays are off by up to 1e-4.
    EXPECT_NEAR(static_cast<double>(state[j]) / exact, 1, 1e-5) << j;
  }
}

}  // namespace
}  // namespace steadystate::full_decay_test
