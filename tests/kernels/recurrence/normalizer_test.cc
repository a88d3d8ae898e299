// Goal: sums of keys are exact to double however long they grow, and are read
// with the same bits by both functions. Method: against long double sums, on
// every target.

#include "kernels/recurrence/normalizer.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

class NormalizerTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(NormalizerTest);

// Several tokens of K channels, with or without decay.
void CompareWithReference(size_t K, bool with_decay, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "K " << K << " decay " << with_decay);
  std::vector<double> z(K, 0.0);
  std::vector<long double> exact(K, 0.0L);
  for (int t = 0; t < 20; ++t) {
    const Floats decay = numbers.Uniform(K, 0.0f, 1.0f);
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const double read = NormalizerStep(K, {with_decay ? decay.data() : nullptr},
                                       q.data(), k.data(), z.data());
    long double product = 0;
    for (size_t i = 0; i < K; ++i) {
      const float kept = with_decay ? decay[i] : 1.0f;
      exact[i] = static_cast<long double>(kept) * exact[i] +
                 static_cast<long double>(k[i]);
      product += static_cast<long double>(q[i]) * exact[i];
      EXPECT_NEAR(z[i], static_cast<double>(exact[i]), 1e-14);
    }
    EXPECT_NEAR(read, static_cast<double>(product),
                1e-14 * static_cast<double>(K));
    EXPECT_EQ(std::bit_cast<uint64_t>(read),
              std::bit_cast<uint64_t>(NormalizerRead(K, q.data(), z.data())));
  }
}

TEST_P(NormalizerTest, MatchesTheFormulaForEveryLength) {
  const uint64_t seed = 81;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  std::vector<size_t> lengths = {64, 100, 153, 256};
  for (size_t K = 1; K <= 35; ++K) lengths.push_back(K);
  for (const size_t K : lengths) {
    CompareWithReference(K, false, numbers);
    CompareWithReference(K, true, numbers);
  }
}

TEST_P(NormalizerTest, CountsBeyondWhatAFloatCanCount) {
  const float one = 1.0f;
  double z = 16777216.0;  // 2^24, to which a float adds one in vain
  EXPECT_EQ(NormalizerStep(1, {}, &one, &one, &z), 16777217.0);
  EXPECT_EQ(NormalizerStep(1, {&one}, &one, &one, &z), 16777218.0);
}

TEST_P(NormalizerTest, AMillionTokensAreExactToDouble) {
  constexpr size_t K = 5;
  constexpr int kSteps = 1'000'000;
  const float k[K] = {0.1f, 0.7f, 1e-3f, 1.9f, 3e-8f};
  const float q[K] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
  double z[K] = {};
  for (int t = 0; t < kSteps; ++t) NormalizerStep(K, {}, q, k, z);
  for (size_t i = 0; i < K; ++i) {
    const double exact = static_cast<double>(k[i]) * kSteps;
    EXPECT_NEAR(z[i], exact, 1e-10 * exact) << i;
  }
}

TEST_P(NormalizerTest, SaturatedGatesForgetAllOrKeepAll) {
  const float decay[] = {0.0f, 1.0f, 1e-38f};
  const float q[] = {0.0f, 0.0f, 0.0f};
  const float k[] = {0.5f, 0.5f, 0.5f};
  double z[3] = {1e300, 0.0, 1.0};
  for (int t = 0; t < 10000; ++t) NormalizerStep(3, {decay}, q, k, z);
  EXPECT_EQ(z[0], 0.5);
  EXPECT_EQ(z[1], 5000.0);
  EXPECT_EQ(z[2], 0.5);
}

TEST_P(NormalizerTest, TwoPartsOfADecayAreAdded) {
  constexpr size_t K = 37;
  Floats high(K), low(K), nothing(K);
  std::vector<double> z(K, 1.0);
  for (size_t i = 0; i < K; ++i) {
    high[i] = 1 - 0x1p-13f;
    low[i] = 0x1p-30f * static_cast<float>(i);
  }
  NormalizerStep(K, {high.data(), low.data()}, nothing.data(), nothing.data(),
                 z.data());
  for (size_t i = 0; i < K; ++i) {
    EXPECT_EQ(z[i], static_cast<double>(high[i]) + static_cast<double>(low[i]));
  }
}

}  // namespace
}  // namespace steadystate
