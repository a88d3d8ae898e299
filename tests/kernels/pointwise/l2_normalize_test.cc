// Goal: vectors get unit length, with eps under the root. Method: against the
// formula in double, on every target.

#include "kernels/pointwise/l2_normalize.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
