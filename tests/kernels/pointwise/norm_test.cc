// RMS norms against double formulas, on every target.

#include "kernels/pointwise/norm.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

class NormTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(NormTest);

std::vector<double> ExactRmsNorm(const Floats& x, const float* weight,
                                 double eps) {
  double sum = 0;
  for (const float value : x) sum += std::pow(static_cast<double>(value), 2);
  const double factor =
      1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const double w = weight == nullptr ? 1.0 : static_cast<double>(weight[i]);
    y[i] = static_cast<double>(x[i]) * factor * w;
  }
  return y;
}

TEST_P(NormTest, MatchesTheFormulaForEveryLengthWithAndWithoutWeight) {
  const uint64_t seed = 21;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  std::vector<size_t> lengths = {64, 100, 1000, 2048, 4099};
  for (size_t n = 1; n <= 35; ++n) lengths.push_back(n);
  for (const size_t n : lengths) {
    const Floats x = numbers.Uniform(n, -3.0f, 3.0f);
    const Floats weight = numbers.Uniform(n, -2.0f, 2.0f);
    for (const float* w : {weight.data(), static_cast<const float*>(nullptr)}) {
      const std::vector<double> exact = ExactRmsNorm(x, w, 1e-6);
      Floats y(x);
      RmsNorm(n, y.data(), w, 1e-6f, y.data());
      for (size_t i = 0; i < n; ++i) {
        EXPECT_LE(UlpError(y[i], exact[i]), 8.0) << n << " " << i;
      }
    }
  }
}

TEST_P(NormTest, ZerosStayZero) {
  const Floats x(19);
  Floats y(19);
  RmsNorm(19, x.data(), nullptr, 1e-6f, y.data());
  for (const float value : y) EXPECT_EQ(value, 0.0f);
}

TEST_P(NormTest, GoldenGatedRmsNorm) {
  const float o[] = {1.0f, -2.0f, 0.5f, 3.0f};
  const float gate[] = {0.5f, 1.0f, -1.0f, 2.0f};
  const float weight[] = {1.0f, 1.0f, 2.0f, 0.5f};
  const double golden[] = {0.164893, -0.774648, -0.142489, 1.399973};
  float y[4];
  GatedRmsNorm(4, o, gate, weight, 1e-6f, Activation::kSilu, y);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(y[i]), golden[i], 1e-6);
  }
}

TEST_P(NormTest, GateIsAppliedAfterTheNormForEveryActivation) {
  const uint64_t seed = 22;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const Activation act :
       {Activation::kSilu, Activation::kSigmoid, Activation::kIdentity}) {
    for (size_t n = 1; n <= 35; ++n) {
      const Floats x = numbers.Uniform(n, -3.0f, 3.0f);
      const Floats gate = numbers.Uniform(n, -3.0f, 3.0f);
      const std::vector<double> norm = ExactRmsNorm(x, nullptr, 1e-5);
      Floats factor(n);
      Activate(act, n, gate.data(), factor.data());
      Floats y(x);
      GatedRmsNorm(n, y.data(), gate.data(), nullptr, 1e-5f, act, y.data());
      for (size_t i = 0; i < n; ++i) {
        EXPECT_LE(UlpError(y[i], norm[i] * static_cast<double>(factor[i])),
                  8.0);
      }
    }
  }
}

}  // namespace
}  // namespace steadystate
