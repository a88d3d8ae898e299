// Goal: RMS and layer norms are their formulas, and vectors get unit length
// with eps under the root. Method: against the formulas in double, on every
// target.

#include "kernels/pointwise/norm.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::norm_test {
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

class L2NormalizeTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(L2NormalizeTest);

TEST_P(L2NormalizeTest, MatchesTheFormulaForEveryLengthInPlace) {
  const uint64_t seed = 26;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  std::vector<size_t> lengths = {64, 100, 256};
  for (size_t n = 1; n <= 35; ++n) lengths.push_back(n);
  for (const size_t n : lengths) {
    for (const float size : {1e-3f, 1.0f, 1e6f}) {
      const Floats x = numbers.Uniform(n, -size, size);
      Floats y(x);
      L2Normalize(n, y.data(), 1e-6f, y.data());
      double sum = 0;
      for (const float value : x) {
        sum += std::pow(static_cast<double>(value), 2);
      }
      const double norm = std::sqrt(sum + static_cast<double>(1e-6f));
      for (size_t i = 0; i < n; ++i) {
        EXPECT_LE(UlpError(y[i], static_cast<double>(x[i]) / norm), 8.0)
            << n << " " << i;
      }
    }
  }
}

TEST_P(L2NormalizeTest, ZerosStayZero) {
  const Floats x(19);
  Floats y = Numbers(27).Uniform(19, -1.0f, 1.0f);
  L2Normalize(19, x.data(), 1e-6f, y.data());
  for (const float value : y) EXPECT_EQ(value, 0.0f);
}

}  // namespace
}  // namespace steadystate::norm_test
