// Goal: small matrices times vectors, any shape, with and without bias. Method:
// against the sums in double, on every target.

#include "kernels/feature_map/mat_vec.h"

#include <cmath>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
