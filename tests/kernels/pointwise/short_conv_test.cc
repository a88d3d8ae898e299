// Short convolutions against the sum over the whole past, on every target.

#include "kernels/pointwise/short_conv.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::short_conv_test {
namespace {

class ShortConvTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ShortConvTest);

TEST_P(ShortConvTest, GoldenTapsThenSilu) {
  const float taps[] = {0.1f, -0.2f, 0.3f, 0.4f};
  const float inputs[] = {1.0f, -2.0f, 0.5f, 3.0f, -1.0f};
  const double golden[] = {0.239475, -0.188770, -0.212606, 1.598635, 0.109967};
  float window[3] = {};
  for (size_t t = 0; t < 5; ++t) {
    float y = 0;
    ShortConvStep(
        {.C = 1, .stride = 1, .W = 4, .taps = taps, .act = Activation::kSilu},
        window, inputs + t, &y);
    EXPECT_NEAR(static_cast<double>(y), golden[t], 1e-6) << t;
  }
}

TEST_P(ShortConvTest, MatchesTheFormulaForEveryWidthTapCountAndBias) {
  const uint64_t seed = 41;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kTokens = 7;
  for (size_t W = 1; W <= 5; ++W) {
    for (size_t C = 1; C <= 35; ++C) {
      const Floats taps = numbers.Uniform(W * C, -1.0f, 1.0f);
      const Floats bias = numbers.Uniform(C, -1.0f, 1.0f);
      const bool has_bias = C % 2 == 0;
      Floats window((W - 1) * C);
      std::vector<Floats> past;
      for (size_t t = 0; t < kTokens; ++t) {
        past.push_back(numbers.Uniform(C, -2.0f, 2.0f));
        Floats y(past.back());
        ShortConvStep({.C = C,
                       .stride = C,
                       .W = W,
                       .taps = taps.data(),
                       .bias = has_bias ? bias.data() : nullptr},
                      window.data(), y.data(), y.data());
        for (size_t c = 0; c < C; ++c) {
          double exact = has_bias ? static_cast<double>(bias[c]) : 0.0;
          for (size_t w = 0; w < W && w <= t; ++w) {
            exact += static_cast<double>(taps[(W - 1 - w) * C + c]) *
                     static_cast<double>(past[t - w][c]);
          }
          EXPECT_NEAR(static_cast<double>(y[c]), exact, 2e-6);
        }
      }
      for (size_t w = 0; w + 1 < W; ++w) {
        for (size_t c = 0; c < C; ++c) {
          EXPECT_EQ(window[w * C + c], past[kTokens - W + 1 + w][c]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::short_conv_test
