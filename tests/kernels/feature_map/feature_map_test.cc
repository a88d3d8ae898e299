// Goal: every feature map is its formula at any width, and survives arguments
// of any size. Method: against the formulas in double, the inner products that
// they stand for, and numbers computed by hand; every target.

#include "kernels/feature_map/feature_map.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/pointwise/activation.h"
#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/normalizer.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/recurrence/golden_tokens.h"

namespace steadystate::feature_map_test {
namespace {

constexpr size_t kWidths[] = {1, 2, 3, 5, 11, 16, 33, 64, 100};

class FeatureMapTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(FeatureMapTest);

double At(const Floats& x, size_t i) { return static_cast<double>(x[i]); }

double Dot(const Floats& x, const Floats& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += At(x, i) * At(y, i);
  return sum;
}

std::vector<double> ExactSoftmax(const Floats& x, double sign) {
  double largest = -HUGE_VAL;
  for (const float value : x) {
    largest = std::max(largest, sign * static_cast<double>(value));
  }
  std::vector<double> y;
  double sum = 0;
  for (const float value : x) {
    y.push_back(std::exp(sign * static_cast<double>(value) - largest));
    sum += y.back();
  }
  for (double& value : y) value /= sum;
  return y;
}

TEST_P(FeatureMapTest, SoftmaxSumsToOneForLogitsOfAnySize) {
  const uint64_t seed = 101;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t n : kWidths) {
    for (const float size : {1.0f, 30.0f, 700.0f, 1e30f}) {
      const Floats x = numbers.Uniform(n, -size, size);
      const std::vector<double> exact = ExactSoftmax(x, 1.0);
      Floats y(x);
      JointSoftmax(n, y.data(), y.data());
      double sum = 0;
      for (size_t i = 0; i < n; ++i) {
        // e^x magnifies the rounding of its argument.
        const double tolerance = 3e-7 - 6e-8 * std::log(exact[i] + 1e-300);
        EXPECT_NEAR(At(y, i), exact[i], exact[i] * tolerance + 1e-44);
        sum += At(y, i);
      }
      EXPECT_NEAR(sum, 1.0, 1e-6);
    }
  }
}

TEST_P(FeatureMapTest, HalvesAreEachASoftmaxAndNeverZero) {
  const uint64_t seed = 102;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t r : kWidths) {
    for (const float size : {1.0f, 700.0f}) {
      const Floats u = numbers.Uniform(r, -size, size);
      const std::vector<double> plus = ExactSoftmax(u, 1.0);
      const std::vector<double> minus = ExactSoftmax(u, -1.0);
      Floats y(2 * r);
      HalfSoftmaxes(r, u.data(), y.data());
      for (size_t i = 0; i < r; ++i) {
        EXPECT_NEAR(At(y, i), std::max(plus[i], 1e-12), 2e-6 * plus[i] + 1e-18);
        EXPECT_NEAR(At(y, r + i), std::max(minus[i], 1e-12),
                    2e-6 * minus[i] + 1e-18);
      }
    }
  }
}

TEST(FeatureMapWithoutVectorsTest, PlusMinusIsBothSigns) {
  for (const size_t r : kWidths) {
    const Floats u = Numbers(103).Uniform(r, -1.0f, 1.0f);
    Floats y(2 * r);
    PlusMinus(r, u.data(), 2.0f, y.data());
    for (size_t i = 0; i < r; ++i) {
      EXPECT_EQ(y[i], 2.0f * u[i]);
      EXPECT_EQ(y[r + i], -2.0f * u[i]);
    }
  }
}

TEST(FeatureMapWithoutVectorsTest, GoldenDpfp) {
  const float x[] = {1.0f, 0.5f};
  const float golden[] = {-0.5f, 0.5f,   -0.5f, 0.5f,  -1.0f, -0.25f,
                          -1.0f, -0.25f, 0.5f,  -0.5f, 0.5f,  -0.5f,
                          1.0f,  0.25f,  1.0f,  0.25f};
  float y[16];
  Dpfp(2, x, DpfpHalf::kNegated, y);
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], golden[i]) << i;
}

TEST(FeatureMapWithoutVectorsTest, DpfpRollsAtEveryWidth) {
  const uint64_t seed = 104;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const DpfpHalf half : {DpfpHalf::kNegated, DpfpHalf::kReflected}) {
    for (const size_t d : kWidths) {
      const Floats x = numbers.Uniform(d, -1.0f, 1.0f);
      Floats p(2 * d);
      for (size_t i = 0; i < d; ++i) {
        p[i] = std::max(x[i], 0.0f);
        p[d + i] = half == DpfpHalf::kNegated ? -p[i] : std::max(-x[i], 0.0f);
      }
      Floats y(8 * d);
      Dpfp(d, x.data(), half, y.data());
      for (size_t j = 1; j <= 4; ++j) {
        for (size_t i = 0; i < 2 * d; ++i) {
          EXPECT_EQ(y[2 * d * (j - 1) + i], p[i] * p[(i + 8 * d - j) % (2 * d)])
              << d << " " << j << " " << i;
        }
      }
    }
  }
}

TEST(FeatureMapWithoutVectorsTest, TaylorIsTheSeriesOfTheInnerProduct) {
  const uint64_t seed = 105;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  EXPECT_EQ(TaylorWidth(16), 153u);
  for (const size_t d : kWidths) {
    const Floats q = numbers.Uniform(d, -2.0f, 2.0f);
    const Floats k = numbers.Uniform(d, -2.0f, 2.0f);
    Floats phi_q(TaylorWidth(d));
    Floats phi_k(TaylorWidth(d));
    Taylor(d, q.data(), phi_q.data());
    Taylor(d, k.data(), phi_k.data());
    const double s = Dot(q, k) / std::sqrt(static_cast<double>(d));
    const double size = std::sqrt(Dot(phi_q, phi_q) * Dot(phi_k, phi_k));
    EXPECT_NEAR(Dot(phi_q, phi_k), 1 + s + s * s / 2, 2e-7 * size) << d;
  }
}

TEST(FeatureMapWithoutVectorsTest, TaylorKeepsItsOrder) {
  const float x[] = {1.0f, 2.0f, 3.0f};
  const double quarter = std::pow(3.0, -0.25);
  const double square = 1 / std::sqrt(6.0);
  const double product = 1 / std::sqrt(3.0);
  const double golden[] = {1,           quarter,    2 * quarter, 3 * quarter,
                           square,      4 * square, 9 * square,  2 * product,
                           3 * product, 6 * product};
  float y[10];
  Taylor(3, x, y);
  for (size_t i = 0; i < 10; ++i) EXPECT_LE(UlpError(y[i], golden[i]), 2.0);
}

TEST_P(FeatureMapTest, UnitWithOneIsOnePlusTheCosine) {
  const uint64_t seed = 106;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t d : kWidths) {
    const Floats q = numbers.Uniform(d, -2.0f, 2.0f);
    const Floats k = numbers.Uniform(d, -2.0f, 2.0f);
    Floats phi_q(d + 1);
    Floats phi_k(d + 1);
    UnitWithOne(d, q.data(), 1e-6f, phi_q.data());
    UnitWithOne(d, k.data(), 1e-6f, phi_k.data());
    const double cosine =
        Dot(q, k) / std::sqrt((Dot(q, q) + 1e-6) * (Dot(k, k) + 1e-6));
    EXPECT_NEAR(Dot(phi_q, phi_k), 1 + cosine, 1e-6) << d;
  }
}

TEST(FeatureMapWithoutVectorsTest, PerformerLogTakesHalfTheSquaredLengthOff) {
  const uint64_t seed = 107;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t d : kWidths) {
    const size_t m = 2 * d + 1;
    const Floats projected = numbers.Uniform(m, -5.0f, 5.0f);
    const Floats x = numbers.Uniform(d, -2.0f, 2.0f);
    Floats y(projected);
    PerformerLog(m, d, y.data(), x.data(), y.data());
    for (size_t i = 0; i < m; ++i) {
      EXPECT_LE(UlpError(y[i], At(projected, i) - Dot(x, x) / 2), 0.51);
    }
  }
}

TEST(FeatureMapWithoutVectorsTest, SumNormalizeDividesByTheSum) {
  const uint64_t seed = 108;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t n : kWidths) {
    const Floats x = numbers.Uniform(n, 0.0f, 2.0f);
    double sum = 0;
    for (const float value : x) sum += static_cast<double>(value);
    Floats y(x);
    SumNormalize(n, y.data(), 1e-4f, y.data());
    for (size_t i = 0; i < n; ++i) {
      const double exact = At(x, i) / (sum + static_cast<double>(1e-4f));
      EXPECT_LE(UlpError(y[i], exact), 1.0);
    }
  }
}

// One head of linear attention, no decay.
class Attention {
 public:
  explicit Attention(size_t F) : F_(F), state_(F * 2), z_(F, 0.0) {}

  // o, divided by q.z + eps if `normalized`.
  void Step(float scale, const float* q, const float* k, const float* v,
            bool normalized, double eps, float (&o)[2]) {
    const std::vector<float> ones(F_, 1.0f);
    KeyDecayStep(
        {.K = F_, .V = 2, .scale = scale, .q = q, .k = k, .v = v, .o = o},
        {ones.data()}, state_.data());
    const double sum = NormalizerStep(F_, {}, q, k, z_.data());
    if (!normalized) return;
    for (float& value : o) {
      value = static_cast<float>(static_cast<double>(value) / (sum + eps));
    }
  }

 private:
  size_t F_;
  Floats state_;
  std::vector<double> z_;
};

TEST_P(FeatureMapTest, GoldenEluPlusOne) {
  const double golden[][2] = {
      {1.0, 1.999999}, {0.227259, 1.420444}, {0.103699, 1.050520}};
  Attention attention(2);
  for (size_t t = 0; t < 3; ++t) {
    float q[2];
    float k[2];
    float o[2];
    Activate(Activation::kEluPlusOne, 2, kGoldenQ[t], q);
    Activate(Activation::kEluPlusOne, 2, kGoldenK[t], k);
    attention.Step(1.0f, q, k, kGoldenV[t], true, 1e-6, o);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(FeatureMapTest, GoldenHedgehogOfFla) {
  const double golden[][2] = {
      {0.103130, 0.206260}, {0.282027, 0.664647}, {-0.249994, 0.425168}};
  Attention attention(4);
  for (size_t t = 0; t < 3; ++t) {
    float q[4];
    float k[4];
    float o[2];
    PlusMinus(2, kGoldenQ[t], 2.0f, q);
    PlusMinus(2, kGoldenK[t], 2.0f, k);
    JointSoftmax(4, q, q);
    JointSoftmax(4, k, k);
    attention.Step(0.5f, q, k, kGoldenV[t], false, 0.0, o);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(FeatureMapTest, GoldenOnePlusCosine) {
  const double golden[][2] = {
      {1.0, 2.0}, {0.426492, 1.569869}, {-0.259605, 1.022548}};
  Attention attention(3);
  for (size_t t = 0; t < 3; ++t) {
    float q[3];
    float k[3];
    float o[2];
    UnitWithOne(2, kGoldenQ[t], 0.0f, q);
    UnitWithOne(2, kGoldenK[t], 0.0f, k);
    attention.Step(1.0f, q, k, kGoldenV[t], true, 0.0, o);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(FeatureMapTest, GoldenTaylor) {
  const double golden[][2] = {
      {1.0, 2.0}, {0.583678, 1.687758}, {0.385724, 0.496732}};
  Attention attention(6);
  for (size_t t = 0; t < 3; ++t) {
    float q[6];
    float k[6];
    float o[2];
    Taylor(2, kGoldenQ[t], q);
    Taylor(2, kGoldenK[t], k);
    attention.Step(1.0f, q, k, kGoldenV[t], true, 0.0, o);
    ExpectGolden(o, golden[t]);
  }
}

TEST_P(FeatureMapTest, GoldenSoftmaxOverFeatures) {
  const double golden[][2] = {
      {1.0, 2.0}, {0.301480, 1.476110}, {0.010798, 0.856940}};
  Attention attention(2);
  for (size_t t = 0; t < 3; ++t) {
    float q[2];
    float k[2];
    float o[2];
    JointSoftmax(2, kGoldenQ[t], q);
    JointSoftmax(2, kGoldenK[t], k);
    attention.Step(1.0f, q, k, kGoldenV[t], true, 0.0, o);
    ExpectGolden(o, golden[t]);
  }
}

class MatVecTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(MatVecTest);

void CompareWithReference(size_t r, size_t d, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "r " << r << " d " << d);
  const Floats w = numbers.Uniform(r * d, -1.0f, 1.0f);
  const Floats bias = numbers.Uniform(r, -1.0f, 1.0f);
  const Floats x = numbers.Uniform(d, -1.0f, 1.0f);
  for (const bool with_bias : {false, true}) {
    Floats y(r);
    MatVec(r, d, w.data(), with_bias ? bias.data() : nullptr, x.data(),
           y.data());
    for (size_t i = 0; i < r; ++i) {
      double exact = with_bias ? static_cast<double>(bias[i]) : 0.0;
      for (size_t c = 0; c < d; ++c) {
        exact += static_cast<double>(w[i * d + c]) * static_cast<double>(x[c]);
      }
      EXPECT_NEAR(static_cast<double>(y[i]), exact,
                  2e-7 * std::sqrt(static_cast<double>(d)));
    }
  }
}

TEST_P(MatVecTest, MatchesTheSumsForEveryShape) {
  const uint64_t seed = 95;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t r : {1u, 5u, 11u, 16u, 64u, 100u}) {
    for (const size_t d : {1u, 5u, 11u, 16u, 64u, 100u}) {
      CompareWithReference(r, d, numbers);
    }
  }
  for (size_t d = 1; d <= 70; ++d) CompareWithReference(2, d, numbers);
}

TEST_P(MatVecTest, ARowDoesNotDependOnTheOthers) {
  Numbers numbers(96);
  constexpr size_t r = 7;
  constexpr size_t d = 37;
  const Floats w = numbers.Uniform(r * d, -1.0f, 1.0f);
  const Floats x = numbers.Uniform(d, -1.0f, 1.0f);
  Floats y(r);
  MatVec(r, d, w.data(), nullptr, x.data(), y.data());
  for (size_t i = 0; i < r; ++i) {
    float alone = 0;
    MatVec(1, d, w.data() + i * d, nullptr, x.data(), &alone);
    EXPECT_TRUE(SameBits(y[i], alone)) << i;
  }
}

}  // namespace
}  // namespace steadystate::feature_map_test
