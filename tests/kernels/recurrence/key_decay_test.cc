// Goal: the key-decay step is its formula, column by column, at any size and
// over any time. Method: against the formula in double, on every target.

#include "kernels/recurrence/key_decay.h"

#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/pointwise/activation.h"
#include "kernels/pointwise/decay.h"
#include "tests/kernels/numbers.h"
#include "tests/testing/recurrence_reference.h"

namespace steadystate {
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
    KeyDecayStep(2, 2, std::sqrt(0.5f), decay, q[t], k[t], v[t], state, o);
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
    KeyDecayStep(K, V, 0.125f, decay.data(), q.data(), k.data(), v.data(),
                 state.data(), o.data());
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
  KeyDecayStep(K, V, 0.5f, decay.data(), q.data(), k.data(), v.data(),
               state.data(), o.data());
  for (size_t j = 0; j < V; ++j) {
    Floats column(K);
    for (size_t i = 0; i < K; ++i) column[i] = before[i * V + j];
    float alone = 0;
    KeyDecayStep(K, 1, 0.5f, decay.data(), q.data(), k.data(), v.data() + j,
                 column.data(), &alone);
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
  LogSigmoidDecay(K, logits, 16.0f, -HUGE_VALF, decay);
  std::vector<double> exact_state(K * V, 0.0);
  Floats state(K * V);
  Floats o(V);
  std::vector<double> exact;
  for (int t = 0; t < kSteps; ++t) {
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    KeyDecayStep(K, V, 1.0f, decay, q.data(), k.data(), v.data(), state.data(),
                 o.data());
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
    KeyDecayStep(K, V, 0.5f, decay.data(), q.data(), k.data(), v.data(),
                 states[0].data(), o[0].data());
    SplitKeyDecayStep(K, V, 0.5f, decay.data(), none.data(), q.data(), k.data(),
                      v.data(), states[1].data(), o[1].data());
    SplitScalarDecayStep(K, V, 0.5f, factor, 0, q.data(), k.data(), v.data(),
                         states[2].data(), o[2].data());
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
    SplitKeyDecayStep(K, V, 1, decay, low, q.data(), k.data(), v.data(),
                      state.data(), o.data());
    KeyDecayStep(K, V, 1, decay, q.data(), k.data(), v.data(), rounded.data(),
                 o.data());
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

}  // namespace
}  // namespace steadystate
