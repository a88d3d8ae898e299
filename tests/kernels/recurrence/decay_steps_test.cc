// Goal: each step is its formula, column by column, at any size and over any
// time, and reading a state gives what the step that left it so had read.
// Method: against the formulas in double, on every target, and numbers computed
// by hand.

#include "kernels/recurrence/decay_steps.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/golden_tokens.h"
#include "tests/kernels/recurrence/step_checks.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate::decay_steps_test {
namespace {

class KeyDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(KeyDecayTest);

TEST_P(KeyDecayTest, GoldenGla) {
  const float q[][2] = {{0.5f, -1.0f}, {1.5f, 0.25f}, {-0.75f, 2.0f}};
  const float k[][2] = {{1.0f, 0.5f}, {-0.5f, 1.25f}, {0.25f, -2.0f}};
  const float v[][2] = {{1.0f, 2.0f}, {-1.0f, 0.5f}, {3.0f, -0.25f}};
  const float log_decay[][2] = {
      {-0.1f, -0.5f}, {-0.2f, -0.05f}, {-1.0f, -0.3f}};
  const double golden[][2] = {
      {0.0, 0.0}, {1.261832, 1.750266}, {-9.951614, 2.120939}};
  float state[4] = {};
  for (size_t t = 0; t < 3; ++t) {
    const float decay[] = {std::exp(log_decay[t][0]),
                           std::exp(log_decay[t][1])};
    float o[2];
    KeyDecayStep({.K = 2,
                  .V = 2,
                  .scale = std::sqrt(0.5f),
                  .q = q[t],
                  .k = k[t],
                  .v = v[t],
                  .o = o},
                 {decay}, state);
    EXPECT_NEAR(static_cast<double>(o[0]), golden[t][0], 2e-6) << t;
    EXPECT_NEAR(static_cast<double>(o[1]), golden[t][1], 2e-6) << t;
  }
}

// Five tokens of one head, kernel and reference side by side.
void CompareWithReference(size_t K, size_t V, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "K " << K << " V " << V);
  std::vector<double> exact_state(K * V, 0.0);
  Floats state(K * V);
  Floats o(V);
  for (int t = 0; t < 5; ++t) {
    const Floats decay = numbers.Uniform(K, 0.0f, 1.0f);
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    KeyDecayStep({.K = K,
                  .V = V,
                  .scale = 0.125f,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o.data()},
                 {decay.data()}, state.data());
    const std::vector<double> exact =
        KeyDecayReference(0.125, decay, q, k, v, exact_state);
    for (size_t j = 0; j < V; ++j) {
      EXPECT_NEAR(static_cast<double>(o[j]), exact[j],
                  1e-7 * std::sqrt(static_cast<double>(K)));
    }
  }
  for (size_t i = 0; i < K * V; ++i) {
    EXPECT_NEAR(static_cast<double>(state[i]), exact_state[i], 1e-6);
  }
}

TEST_P(KeyDecayTest, MatchesTheReferenceForEveryTail) {
  const uint64_t seed = 51;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 1; n <= 35; ++n) {
    CompareWithReference(3, n, numbers);
    CompareWithReference(n, 5, numbers);
    CompareWithReference(n, n, numbers);
  }
  for (const auto& [K, V] :
       {std::pair<size_t, size_t>{64, 64}, {128, 256}, {256, 130}, {5, 515}}) {
    CompareWithReference(K, V, numbers);
  }
}

TEST_P(KeyDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  const uint64_t seed = 52;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t K = 17;
  constexpr size_t V = 207;  // every block width on every target
  const Floats decay = numbers.Uniform(K, 0.0f, 1.0f);
  const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
  const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
  const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
  Floats state = numbers.Uniform(K * V, -1.0f, 1.0f);
  const Floats before(state);
  Floats o(V);
  KeyDecayStep({.K = K,
                .V = V,
                .scale = 0.5f,
                .q = q.data(),
                .k = k.data(),
                .v = v.data(),
                .o = o.data()},
               {decay.data()}, state.data());
  for (size_t j = 0; j < V; ++j) {
    Floats column(K);
    for (size_t i = 0; i < K; ++i) column[i] = before[i * V + j];
    float alone = 0;
    KeyDecayStep({.K = K,
                  .V = 1,
                  .scale = 0.5f,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data() + j,
                  .o = &alone},
                 {decay.data()}, column.data());
    EXPECT_TRUE(SameBits(o[j], alone)) << j;
    for (size_t i = 0; i < K; ++i) {
      EXPECT_TRUE(SameBits(state[i * V + j], column[i])) << i << " " << j;
    }
  }
}

TEST_P(KeyDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  const uint64_t seed = 53;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t K = 6;
  constexpr size_t V = 37;
  constexpr int kSteps = 10000;
  // Gate logits that saturate to forget all, keep all, and all between.
  const float logits[K] = {-HUGE_VALF, -1e30f, HUGE_VALF, 1e30f, 40.0f, -3.0f};
  float decay[K];
  LogSigmoidLogDecay(K, logits, 16.0f, -HUGE_VALF, decay);
  Activate(Activation::kExp, K, decay, decay);
  std::vector<double> exact_state(K * V, 0.0);
  Floats state(K * V);
  Floats o(V);
  std::vector<double> exact;
  for (int t = 0; t < kSteps; ++t) {
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    KeyDecayStep({.K = K,
                  .V = V,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o.data()},
                 {decay}, state.data());
    exact = KeyDecayReference(1.0, decay, q, k, v, exact_state);
    ASSERT_TRUE(AllFinite(V, o.data())) << t;
  }
  ASSERT_TRUE(AllFinite(K * V, state.data()));
  double largest = 1.0;
  for (const double s : exact_state) largest = std::max(largest, std::abs(s));
  // A state that forgets nothing adds up the rounding of every step.
  const double tolerance = largest * 6e-8 * std::sqrt(double{kSteps});
  for (size_t i = 0; i < K * V; ++i) {
    EXPECT_NEAR(static_cast<double>(state[i]), exact_state[i], tolerance);
  }
  for (size_t j = 0; j < V; ++j) {
    EXPECT_NEAR(static_cast<double>(o[j]), exact[j], K * tolerance);
  }
}

// What is exact in float is not changed by being split.
TEST_P(KeyDecayTest, SplitFormsAgreeToTheBit) {
  const uint64_t seed = 54;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t V : {1u, 32u, 37u, 64u, 256u, 300u}) {
    constexpr size_t K = 9;
    const float factor = numbers.Uniform(0.0f, 1.0f);
    Floats decay(K);
    for (float& value : decay) value = factor;
    const Floats none(K);
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    const Floats before = numbers.Uniform(K * V, -1.0f, 1.0f);
    Floats states[] = {before, before, before};
    Floats o[] = {Floats(V), Floats(V), Floats(V)};
    KeyDecayStep({.K = K,
                  .V = V,
                  .scale = 0.5f,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o[0].data()},
                 {decay.data()}, states[0].data());
    KeyDecayStep({.K = K,
                  .V = V,
                  .scale = 0.5f,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o[1].data()},
                 {decay.data(), none.data()}, states[1].data());
    KeyDecayStep({.K = K,
                  .V = V,
                  .scale = 0.5f,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o[2].data()},
                 {&factor, none.data(), 0}, states[2].data());
    for (const size_t form : {1u, 2u}) {
      for (size_t j = 0; j < V; ++j) {
        EXPECT_TRUE(SameBits(o[form][j], o[0][j])) << form << " " << V;
      }
      for (size_t i = 0; i < K * V; ++i) {
        EXPECT_TRUE(SameBits(states[form][i], states[0][i])) << form;
      }
    }
  }
}

// The largest error of a state, relative to itself, after 10^5 tokens with the
// same slow decays, and of one with the decays rounded to float.
struct LongRun {
  double split = 0;
  double rounded = 0;
};

LongRun RunLong(Numbers& numbers) {
  constexpr size_t K = 4;
  constexpr size_t V = 5;
  const float log_decay[K] = {-1.3e-3f, -1.1e-4f, -3.7e-5f, -1.7e-5f};
  float decay[K];
  float low[K];
  SplitDecay(K, log_decay, decay, low);
  std::vector<double> exact(K * V, 0.0);
  Floats state(K * V);
  Floats rounded(K * V);
  Floats o(V);
  const Floats q(K);
  for (int t = 0; t < 100000; ++t) {
    const Floats k = numbers.Uniform(K, 0.0f, 1.0f);
    const Floats v = numbers.Uniform(V, 0.5f, 1.0f);
    KeyDecayStep({.K = K,
                  .V = V,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o.data()},
                 {decay, low}, state.data());
    KeyDecayStep({.K = K,
                  .V = V,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = o.data()},
                 {decay}, rounded.data());
    for (size_t i = 0; i < K * V; ++i) {
      const double factor = std::exp(static_cast<double>(log_decay[i / V]));
      exact[i] = factor * exact[i] +
                 static_cast<double>(k[i / V]) * static_cast<double>(v[i % V]);
    }
  }
  LongRun errors;
  const auto error = [](float found, double expected) {
    return std::abs(static_cast<double>(found) / expected - 1);
  };
  for (size_t i = 0; i < K * V; ++i) {
    errors.split = std::max(errors.split, error(state[i], exact[i]));
    errors.rounded = std::max(errors.rounded, error(rounded[i], exact[i]));
  }
  return errors;
}

TEST_P(KeyDecayTest, SplitDecaysNearOneAreRightOverAHundredThousandTokens) {
  const uint64_t seed = 55;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  const LongRun errors = RunLong(numbers);
  // What is left is the rounding of the sums, and without fused instructions
  // that of the products.
  const bool fused = GetParam() <= HWY_AVX2;
  EXPECT_LE(errors.split, fused ? 1.5e-5 : 1.5e-4);
  EXPECT_GE(errors.rounded, 2e-4);
}

class BonusDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(BonusDecayTest);

// decay, bonus, r, k and v.
StepInputs BonusInputs(Floats decay, size_t V, Numbers& numbers) {
  StepInputs inputs;
  const size_t K = decay.size();
  inputs.of_keys.push_back(std::move(decay));
  for (int i = 0; i < 3; ++i) {
    inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  }
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

StepInputs RandomBonus(size_t K, size_t V, Numbers& numbers) {
  return BonusInputs(numbers.Uniform(K, 0.0f, 1.0f), V, numbers);
}

StepInputs SaturatedBonus(size_t V, Numbers& numbers) {
  const float decay[] = {0.0f, 1e-38f, 1.0f, 1.0f, 0.9999f, 0.8f};
  return BonusInputs(Floats(decay), V, numbers);
}

StepUnderTest BonusUnderTest() {
  StepUnderTest step;
  step.random = RandomBonus;
  step.saturated = SaturatedBonus;
  step.o_tolerance = 8e-7;  // o is not scaled by an eighth as elsewhere
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    BonusDecayStep({.K = K,
                    .V = V,
                    .q = in.of_keys[2].data(),
                    .k = in.of_keys[3].data(),
                    .v = in.of_values[0].data(),
                    .o = o},
                   {in.of_keys[0].data()}, in.of_keys[1].data(), state);
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
    BonusDecayStep({.K = 2,
                    .V = 2,
                    .q = kGoldenQ[t],
                    .k = kGoldenK[t],
                    .v = kGoldenV[t],
                    .o = o},
                   {decay}, bonus, state);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(BonusDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(BonusUnderTest(), 71);
}

TEST_P(BonusDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(BonusUnderTest(), 72);
}

TEST_P(BonusDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(BonusUnderTest(), 73);
}

TEST_P(BonusDecayTest, TwoPartsOfADecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  ExpectTwoPartsOfADecayCount(GetParam(),
                              [&](Decays decay, float* state, float* o) {
                                BonusDecayStep({.K = kShape.K,
                                                .V = kShape.V,
                                                .q = keys.data(),
                                                .k = keys.data(),
                                                .v = values.data(),
                                                .o = o},
                                               decay, keys.data(), state);
                              });
}

class OuterDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(OuterDecayTest);

// decay_k, q, k and decay_v, v.
StepInputs OuterInputs(Floats decay_k, Floats decay_v, size_t V,
                       Numbers& numbers) {
  StepInputs inputs;
  const size_t K = decay_k.size();
  inputs.of_keys.push_back(std::move(decay_k));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_keys.push_back(numbers.Uniform(K, -1.0f, 1.0f));
  inputs.of_values.push_back(std::move(decay_v));
  inputs.of_values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
  return inputs;
}

StepInputs RandomOuter(size_t K, size_t V, Numbers& numbers) {
  return OuterInputs(numbers.Uniform(K, 0.0f, 1.0f),
                     numbers.Uniform(V, 0.0f, 1.0f), V, numbers);
}

StepInputs SaturatedOuter(size_t V, Numbers& numbers) {
  const float decay_k[] = {0.0f, 1e-38f, 1.0f, 1.0f, 0.9999f, 0.8f};
  Floats decay_v(V);
  for (size_t j = 0; j < V; ++j) decay_v[j] = decay_k[(j + 2) % 6];
  return OuterInputs(Floats(decay_k), std::move(decay_v), V, numbers);
}

StepUnderTest OuterUnderTest() {
  StepUnderTest step;
  step.random = RandomOuter;
  step.saturated = SaturatedOuter;
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    OuterDecayStep({.K = K,
                    .V = V,
                    .scale = 0.125f,
                    .q = in.of_keys[1].data(),
                    .k = in.of_keys[2].data(),
                    .v = in.of_values[1].data(),
                    .o = o},
                   {in.of_keys[0].data()}, {in.of_values[0].data()}, state);
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
  OuterDecayStep({.K = 2,
                  .V = 3,
                  .scale = 2.0f,
                  .q = q,
                  .k = nothing,
                  .v = nothing,
                  .o = o},
                 {decay_k}, {decay_v}, state);
  const float kept[] = {0.25f, 2.0f, 0.0f, 0.5f, 2.5f, 0.0f};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(state[i], kept[i]) << i;
  EXPECT_EQ(o[0], 10.5f);
  EXPECT_EQ(o[1], 54.0f);
  EXPECT_EQ(o[2], 0.0f);
}

TEST_P(OuterDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(OuterUnderTest(), 61);
}

TEST_P(OuterDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(OuterUnderTest(), 62);
}

TEST_P(OuterDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(OuterUnderTest(), 63);
}

TEST_P(OuterDecayTest, TwoPartsOfEitherDecayCount) {
  constexpr FadingShape kShape;
  const Floats nothing(kShape.V);
  Floats ones(kShape.V), high(kShape.V), low(kShape.V);
  for (float& value : ones) value = 1;
  ExpectTwoPartsOfADecayCount(GetParam(),
                              [&](Decays decay, float* state, float* o) {
                                OuterDecayStep({.K = kShape.K,
                                                .V = kShape.V,
                                                .q = nothing.data(),
                                                .k = nothing.data(),
                                                .v = nothing.data(),
                                                .o = o},
                                               decay, {ones.data()}, state);
                              });
  ExpectTwoPartsOfADecayCount(
      GetParam(), [&](Decays decay, float* state, float* o) {
        for (float& value : high) value = decay.high[0];
        for (float& value : low) value = decay.low[0];
        OuterDecayStep({.K = kShape.K,
                        .V = kShape.V,
                        .q = nothing.data(),
                        .k = nothing.data(),
                        .v = nothing.data(),
                        .o = o},
                       {ones.data()}, {high.data(), low.data()}, state);
      });
}

class ComplexKeyDecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ComplexKeyDecayTest);

// decay_re, decay_im, q, k and v.
StepInputs ComplexInputs(const Floats& size, const Floats& phase, size_t V,
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

StepInputs RandomComplex(size_t K, size_t V, Numbers& numbers) {
  return ComplexInputs(numbers.Uniform(K, 0.0f, 1.0f),
                       numbers.Uniform(K, -3.2f, 3.2f), V, numbers);
}

// Forgotten at once, kept while it turns, and the like.
StepInputs SaturatedComplex(size_t V, Numbers& numbers) {
  const float size[] = {0.0f, 1e-38f, 1.0f, 1.0f, 1.0f, 0.8f};
  const float phase[] = {1.0f, 1.0f, 0.0f, 1.0f, 3.1415927f, -2.0f};
  return ComplexInputs(Floats(size), Floats(phase), V, numbers);
}

StepUnderTest ComplexUnderTest() {
  StepUnderTest step;
  step.random = RandomComplex;
  step.saturated = SaturatedComplex;
  step.planes = 2;
  step.run = [](size_t K, size_t V, const StepInputs& in, float* state,
                float* o) {
    ComplexKeyDecayStep({.K = K,
                         .V = V,
                         .scale = 0.125f,
                         .q = in.of_keys[2].data(),
                         .k = in.of_keys[3].data(),
                         .v = in.of_values[0].data(),
                         .o = o},
                        {in.of_keys[0].data()}, {in.of_keys[1].data()}, state);
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
  ComplexKeyDecayStep(
      {.K = 1, .V = 1, .scale = 3.0f, .q = one, .k = one, .v = one, .o = &o},
      {re}, {im}, state);
  EXPECT_EQ(o, 3.0f);
  const float expected[][3] = {{0.0f, 1.0f, 0.0f},
                               {-1.0f, 0.0f, -3.0f},
                               {0.0f, -1.0f, 0.0f},
                               {1.0f, 0.0f, 3.0f}};
  for (const auto& [real, imaginary, read] : expected) {
    ComplexKeyDecayStep(
        {.K = 1, .V = 1, .scale = 3.0f, .q = one, .k = zero, .v = one, .o = &o},
        {re}, {im}, state);
    EXPECT_EQ(state[0], real);
    EXPECT_EQ(state[1], imaginary);
    EXPECT_EQ(o, read);
  }
}

TEST_P(ComplexKeyDecayTest, MatchesTheReferenceForEveryShapeAndTail) {
  ExpectStepMatchesItsReference(ComplexUnderTest(), 67);
}

TEST_P(ComplexKeyDecayTest, ColumnsDoNotDependOnTheirNeighbours) {
  ExpectColumnsAreIndependent(ComplexUnderTest(), 68);
}

TEST_P(ComplexKeyDecayTest, SaturatedGatesStayFiniteAndRightOverManySteps) {
  ExpectSaturatedGatesAreRight(ComplexUnderTest(), 69);
}

TEST_P(ComplexKeyDecayTest, TwoPartsOfARealDecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  const auto fade = [&](Decays decay, float* state, float* o) {
    ComplexKeyDecayStep({.K = kShape.K,
                         .V = kShape.V,
                         .q = keys.data(),
                         .k = keys.data(),
                         .v = values.data(),
                         .o = o},
                        decay, {keys.data()}, state);
  };
  ExpectTwoPartsOfADecayCount(GetParam(), fade, 2);
}

// Four quarter turns make a decay real.
TEST_P(ComplexKeyDecayTest, TwoPartsOfAnImaginaryDecayCount) {
  constexpr FadingShape kShape;
  const Floats keys(kShape.K), values(kShape.V);
  const auto fade = [&](Decays decay, float* state, float* o) {
    ComplexKeyDecayStep({.K = kShape.K,
                         .V = kShape.V,
                         .q = keys.data(),
                         .k = keys.data(),
                         .v = values.data(),
                         .o = o},
                        {keys.data()}, decay, state);
  };
  ExpectTwoPartsOfADecayCount(GetParam(), fade, 2);
}

class StateReadTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(StateReadTest);

void ExpectSame(size_t V, const Floats& found, const Floats& expected) {
  for (size_t j = 0; j < V; ++j) {
    EXPECT_TRUE(SameBits(found[j], expected[j])) << V << " " << j;
  }
}

TEST_P(StateReadTest, ReadsWhatStepsRead) {
  const uint64_t seed = 91;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t V : {1u, 5u, 16u, 37u, 64u, 128u, 300u}) {
    const size_t K = 1 + numbers.Below(20);
    const Floats decay = numbers.Uniform(K, 0.0f, 1.0f);
    const Floats phase = numbers.Uniform(K, -0.5f, 0.5f);
    const Floats of_values = numbers.Uniform(V, 0.0f, 1.0f);
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    Floats state = numbers.Uniform(2 * K * V, -1.0f, 1.0f);
    Floats stepped(V);
    Floats read(V);
    KeyDecayStep({.K = K,
                  .V = V,
                  .scale = 0.25f,
                  .q = q.data(),
                  .k = k.data(),
                  .v = v.data(),
                  .o = stepped.data()},
                 {decay.data()}, state.data());
    ReadState({.K = K, .V = V, .scale = 0.25f, .q = q.data(), .o = read.data()},
              state.data());
    ExpectSame(V, read, stepped);
    OuterDecayStep({.K = K,
                    .V = V,
                    .scale = 0.25f,
                    .q = q.data(),
                    .k = k.data(),
                    .v = v.data(),
                    .o = stepped.data()},
                   {decay.data()}, {of_values.data()}, state.data());
    ReadState({.K = K, .V = V, .scale = 0.25f, .q = q.data(), .o = read.data()},
              state.data());
    ExpectSame(V, read, stepped);
    ComplexKeyDecayStep({.K = K,
                         .V = V,
                         .scale = 0.25f,
                         .q = q.data(),
                         .k = k.data(),
                         .v = v.data(),
                         .o = stepped.data()},
                        {decay.data()}, {phase.data()}, state.data());
    ReadState({.K = K, .V = V, .scale = 0.25f, .q = q.data(), .o = read.data()},
              state.data());
    ExpectSame(V, read, stepped);
  }
}

}  // namespace
}  // namespace steadystate::decay_steps_test
