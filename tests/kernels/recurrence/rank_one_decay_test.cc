// Goal: the step of diagonal plus rank one is its formula, column by
// column, at any size and over any time. Method: against the formula in double,
// on every target, and numbers computed by hand.

#include "kernels/recurrence/rank_one_decay.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/golden_tokens.h"
#include "tests/kernels/recurrence/step_checks.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate::rank_one_decay_test {
namespace {

class RankOneDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(RankOneDecayTest);

// decay, a, b, q, k and v.
StepInputs Random(size_t K, size_t V, Numbers& numbers) {
  StepInputs inputs;
  const float small = 1.0f / std::sqrt(static_cast<float>(K));
  inputs.of_keys.push_back(numbers.Uniform(K, 0.0f, 1.0f));
  for (const float size : {small, small, 1.0f, 1.0f}) {
    inputs.of_keys.push_back(numbers.Uniform(K, -size, size));
  }
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

// The delta rule with a decay per key: beta 0 ignores the token, 1 replaces
// what the key recalls, 2 turns it round.
StepInputs Saturated(size_t V, Numbers& numbers) {
  constexpr size_t K = 6;
  const float decay[] = {0.0f, 1e-38f, 1.0f, 1.0f, 0.9999f, 0.8f};
  const float beta = static_cast<float>(numbers.Below(3));
  Floats k = numbers.Uniform(K, -1.0f, 1.0f);
  float norm = 0;
  for (const float value : k) norm += value * value;
  for (float& value : k) value /= std::sqrt(norm);
  Floats a(K);
  Floats b(K);
  for (size_t i = 0; i < K; ++i) {
    a[i] = decay[i] * k[i];
    b[i] = -beta * k[i];
    k[i] *= beta;
  }
  StepInputs inputs;
  inputs.of_keys.push_back(Floats(decay));
  inputs.of_keys.push_back(std::move(a));
  inputs.of_keys.push_back(std::move(b));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_keys.push_back(std::move(k));
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

StepUnderTest UnderTest() {
  StepUnderTest step;
  step.random = Random;
  step.saturated = Saturated;
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    RankOneDecayStep({.K = K,
                      .V = V,
                      .scale = 0.125f,
                      .q = in.of_keys[3].data(),
                      .k = in.of_keys[4].data(),
                      .v = in.of_values[0].data(),
                      .o = o},
                     {in.of_keys[0].data()},
                     {in.of_keys[1].data(), in.of_keys[2].data()}, state);
  };
  step.reference = [](const StepInputs& in, std::vector<double>& state) {
    return RankOneDecayReference(0.125, in.of_keys[0], in.of_keys[1],
                                 in.of_keys[2], in.of_keys[3], in.of_keys[4],
                                 in.of_values[0], state);
  };
  return step;
}

struct Pair {
  float x[2];
};

Pair Normalized(const float (&x)[2]) {
  const float norm = std::sqrt(x[0] * x[0] + x[1] * x[1] + 1e-6f);
  return {{x[0] / norm, x[1] / norm}};
}

TEST_P(RankOneDecayTest, GoldenGatedDeltaRule) {
  const double golden[][2] = {
      {0.0, 0.0}, {0.417284, 0.494578}, {-0.883428, 0.208888}};
  float state[4] = {};
  for (size_t t = 0; t < 3; ++t) {
    const Pair q = Normalized(kGoldenQ[t]);
    const Pair k = Normalized(kGoldenK[t]);
    const float alpha = std::exp(kGoldenLogDecay[t]);
    const float beta = kGoldenBeta[t];
    const float decay[] = {alpha, alpha};
    const float a[] = {alpha * k.x[0], alpha * k.x[1]};
    const float b[] = {-beta * k.x[0], -beta * k.x[1]};
    const float beta_k[] = {beta * k.x[0], beta * k.x[1]};
    float o[2];
    RankOneDecayStep({.K = 2,
                      .V = 2,
                      .scale = std::sqrt(0.5f),
                      .q = q.x,
                      .k = beta_k,
                      .v = kGoldenV[t],
                      .o = o},
                     {decay}, {a, b}, state);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(RankOneDecayTest, GoldenRwkv7) {
  const double golden[][2] = {
      {0.0, 0.0}, {1.804974, 2.516198}, {-13.591894, 2.196261}};
  float state[4] = {};
  for (size_t t = 0; t < 3; ++t) {
    const Pair kappa = Normalized(kGoldenK[t]);
    const float decay[] = {std::exp(kGoldenKeyLogDecay[t][0]),
                           std::exp(kGoldenKeyLogDecay[t][1])};
    const float b[] = {-0.5f * kappa.x[0], -0.25f * kappa.x[1]};
    float o[2];
    RankOneDecayStep({.K = 2,
                      .V = 2,
                      .q = kGoldenQ[t],
                      .k = kGoldenK[t],
                      .v = kGoldenV[t],
                      .o = o},
                     {decay}, {kappa.x, b}, state);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(RankOneDecayTest, TheHeadThatFollowsChangesNothing) {
  Numbers numbers(77);
  SCOPED_TRACE(77);
  // Small, of one block, of a block and a tail.
  for (const auto& [K, V] :
       {std::pair<size_t, size_t>{5, 7}, {128, 64}, {20, 1042}}) {
    const StepInputs in = Random(K, V, numbers);
    const Floats before = numbers.Uniform(K * V, -1.0f, 1.0f);
    const Floats next = numbers.Uniform(K * V, -1.0f, 1.0f);
    Floats states[] = {Floats(before), Floats(before)};
    Floats o[] = {Floats(V), Floats(V)};
    for (size_t i = 0; i < 2; ++i) {
      RankOneDecayStep({.K = K,
                        .V = V,
                        .scale = 0.125f,
                        .q = in.of_keys[3].data(),
                        .k = in.of_keys[4].data(),
                        .v = in.of_values[0].data(),
                        .o = o[i].data()},
                       {in.of_keys[0].data()},
                       {in.of_keys[1].data(), in.of_keys[2].data()},
                       states[i].data(), i == 0 ? nullptr : next.data());
    }
    for (size_t j = 0; j < V; ++j) EXPECT_TRUE(SameBits(o[0][j], o[1][j]));
    for (size_t i = 0; i < K * V; ++i) {
      EXPECT_TRUE(SameBits(states[0][i], states[1][i])) << i;
    }
  }
}

TEST_P(RankOneDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(UnderTest(), 74);
}

TEST_P(RankOneDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(UnderTest(), 75);
}

TEST_P(RankOneDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(UnderTest(), 76);
}

TEST_P(RankOneDecayTest, TwoPartsOfADecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  ExpectTwoPartsOfADecayCount(
      GetParam(), [&](Decays decay, float* state, float* o) {
        RankOneDecayStep({.K = kShape.K,
                          .V = kShape.V,
                          .q = keys.data(),
                          .k = keys.data(),
                          .v = values.data(),
                          .o = o},
                         decay, {keys.data(), keys.data()}, state);
      });
}

}  // namespace
}  // namespace steadystate::rank_one_decay_test
