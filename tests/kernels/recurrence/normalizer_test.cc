// Goal: sums of keys are exact to double however long they grow, and are read
// with the same bits by both functions; exponential features of any size give
// the ratios of their sums, and ordinary ones the same as without a running
// maximum. Method: against long double sums, and through the recurrence and the
// normaliser against double sums shifted by the largest exponent of all;
// numbers computed by hand; every target.

#include "kernels/recurrence/normalizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/feature_map/feature_map.h"
#include "kernels/recurrence/decay_steps.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/golden_tokens.h"

namespace steadystate::normalizer_test {
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

class LogFeatureTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(LogFeatureTest);

// Linear attention over features given by their logarithms, one head.
class LogAttention {
 public:
  LogAttention(size_t F, size_t V)
      : F_(F), V_(V), max_(F), state_(F * V), z_(F, 0.0) {}

  // o, f32[V].
  Floats Step(const float* log_q, const float* log_k, const float* v) {
    Floats decay(F_);
    Floats k(F_);
    Floats q(F_);
    Floats o(V_);
    LogFeatureKey(F_, first_, log_k, max_.data(), decay.data(), k.data());
    first_ = false;
    LogFeatureQuery(F_, log_q, max_.data(), q.data());
    KeyDecayStep(
        {.K = F_, .V = V_, .q = q.data(), .k = k.data(), .v = v, .o = o.data()},
        {decay.data()}, state_.data());
    const double sum =
        NormalizerStep(F_, {decay.data()}, q.data(), k.data(), z_.data());
    for (float& value : o) value /= static_cast<float>(sum);
    return o;
  }

  const std::vector<double>& z() const { return z_; }

 private:
  size_t F_;
  size_t V_;
  bool first_ = true;
  Floats max_;
  Floats state_;
  std::vector<double> z_;
};

// sum_s w_s v_s[j] / sum_s w_s, w_s = sum_c e^(log_q[c] + log_k_s[c]).
double ExactAttention(const Floats& log_q, const std::vector<Floats>& log_k,
                      const std::vector<Floats>& v, size_t j) {
  double largest = -HUGE_VAL;
  const auto exponent = [&](size_t s, size_t c) {
    return static_cast<double>(log_q[c]) + static_cast<double>(log_k[s][c]);
  };
  for (size_t s = 0; s < v.size(); ++s) {
    for (size_t c = 0; c < log_q.size(); ++c) {
      largest = std::max(largest, exponent(s, c));
    }
  }
  double sum = 0;
  double total = 0;
  for (size_t s = 0; s < v.size(); ++s) {
    for (size_t c = 0; c < log_q.size(); ++c) {
      const double weight = std::exp(exponent(s, c) - largest);
      sum += weight * static_cast<double>(v[s][j]);
      total += weight;
    }
  }
  return sum / total;
}

void CompareWithSums(size_t F, float size, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "F " << F << " size " << size);
  constexpr size_t V = 3;
  LogAttention attention(F, V);
  std::vector<Floats> keys;
  std::vector<Floats> values;
  for (int t = 0; t < 12; ++t) {
    const Floats log_q = numbers.Uniform(F, -size, size);
    keys.push_back(numbers.Uniform(F, -size, size));
    values.push_back(numbers.Uniform(V, -1.0f, 1.0f));
    const Floats o =
        attention.Step(log_q.data(), keys.back().data(), values.back().data());
    for (size_t j = 0; j < V; ++j) {
      EXPECT_NEAR(static_cast<double>(o[j]),
                  ExactAttention(log_q, keys, values, j), 2e-6)
          << t;
    }
  }
}

TEST_P(LogFeatureTest, RatiosAreRightForExponentsOfAnySize) {
  const uint64_t seed = 91;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t F : {1u, 5u, 11u, 16u, 64u, 100u}) {
    for (const float size : {1.0f, 30.0f, 700.0f, 1e5f}) {
      CompareWithSums(F, size, numbers);
    }
  }
}

TEST_P(LogFeatureTest, GoldenHedgehogOfPlusAndMinus) {
  const double golden[][2] = {
      {1.0, 2.0}, {0.311901, 1.483925}, {-0.052145, 0.879751}};
  LogAttention attention(4, 2);
  for (size_t t = 0; t < 3; ++t) {
    float log_q[4];
    float log_k[4];
    PlusMinus(2, kGoldenQ[t], 1.0f, log_q);
    PlusMinus(2, kGoldenK[t], 1.0f, log_k);
    const Floats o = attention.Step(log_q, log_k, kGoldenV[t]);
    ExpectGolden({o[0], o[1]}, golden[t]);
  }
}

// One normaliser per feature: every channel of the query is divided by its
// own sum.
TEST_P(LogFeatureTest, GoldenEfficientAttention) {
  const double golden[][2] = {
      {1.0, 2.0}, {0.413895, 1.560421}, {-0.178079, 0.963226}};
  float max[2];
  float state[4] = {};
  double z[2] = {};
  for (size_t t = 0; t < 3; ++t) {
    float decay[2];
    float k[2];
    float q[2];
    float o[2];
    LogFeatureKey(2, t == 0, kGoldenK[t], max, decay, k);
    JointSoftmax(2, kGoldenQ[t], q);
    NormalizerStep(2, {decay}, q, k, z);
    for (size_t c = 0; c < 2; ++c) q[c] /= static_cast<float>(z[c]);
    KeyDecayStep({.K = 2, .V = 2, .q = q, .k = k, .v = kGoldenV[t], .o = o},
                 {decay}, state);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(LogFeatureTest, AMaximumThatStaysDecaysNothing) {
  const float log_k[] = {-2.0f, 500.0f, -500.0f};
  float max[3];
  float decay[3];
  float k[3];
  LogFeatureKey(3, true, log_k, max, decay, k);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(max[c], log_k[c]);
    EXPECT_EQ(decay[c], 0.0f);
    EXPECT_EQ(k[c], 1.0f);
  }
  const float lower[] = {-3.0f, 300.0f, -500.0f};
  LogFeatureKey(3, false, lower, max, decay, k);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(max[c], log_k[c]);
    EXPECT_EQ(decay[c], 1.0f);
  }
  EXPECT_LE(UlpError(k[0], std::exp(-1.0)), 3.0);
  EXPECT_EQ(k[1], 0.0f);
  EXPECT_EQ(k[2], 1.0f);
  const float higher[] = {-1.5f, 900.0f, -499.0f};
  LogFeatureKey(3, false, higher, max, decay, k);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(max[c], higher[c]);
    EXPECT_EQ(k[c], 1.0f);
  }
  EXPECT_LE(UlpError(decay[0], std::exp(-0.5)), 3.0);
  EXPECT_EQ(decay[1], 0.0f);
  EXPECT_LE(UlpError(decay[2], std::exp(-1.0)), 3.0);
}

TEST_P(LogFeatureTest, TenThousandRisingKeysStayFinite) {
  constexpr size_t F = 5;
  LogAttention attention(F, 2);
  const Floats log_q(F);
  const float v[] = {0.25f, -4.0f};
  for (int t = 0; t < 10000; ++t) {
    Floats log_k(F);
    for (size_t c = 0; c < F; ++c) {
      log_k[c] = static_cast<float>(t) * 0.5f - static_cast<float>(c) * 100.0f;
    }
    const Floats o = attention.Step(log_q.data(), log_k.data(), v);
    ASSERT_NEAR(o[0], 0.25f, 1e-6f) << t;
    ASSERT_NEAR(o[1], -4.0f, 1e-5f) << t;
  }
  // Each channel holds a geometric sum: all of its keys in units of the last.
  for (const double z : attention.z()) {
    EXPECT_NEAR(z, 1.0 / (1.0 - std::exp(-0.5)), 1e-6);
  }
}

}  // namespace
}  // namespace steadystate::normalizer_test
