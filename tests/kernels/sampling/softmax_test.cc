// Log-sum-exp, argmax and top-k against plain code, on every target.

#include "kernels/sampling/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::softmax_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class SamplingTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(SamplingTest);

std::vector<size_t> Lengths() {
  std::vector<size_t> lengths = {100, 1000, 4099};
  for (size_t n = 1; n <= 35; ++n) lengths.push_back(n);
  return lengths;
}

TEST_P(SamplingTest, LogSumExpMatchesTheFormula) {
  const uint64_t seed = 71;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t n : Lengths()) {
    for (const float offset : {0.0f, -300.0f, 1000.0f}) {
      const Floats x = numbers.Uniform(n, offset - 20.0f, offset + 20.0f);
      const double max =
          static_cast<double>(*std::max_element(x.begin(), x.end()));
      double sum = 0;
      for (const float value : x) {
        sum += std::exp(static_cast<double>(value) - max);
      }
      EXPECT_NEAR(LogSumExp(n, x.data()), max + std::log(sum), 3e-7) << n;
    }
  }
}

TEST_P(SamplingTest, LogSumExpOfInfinities) {
  const float masked[] = {-kInf, 2.0f, -kInf};
  EXPECT_EQ(LogSumExp(3, masked), 2.0);
  const float none[] = {-kInf, -kInf};
  EXPECT_EQ(LogSumExp(2, none), static_cast<double>(-kInf));
  const float all[] = {0.0f, kInf};
  EXPECT_EQ(LogSumExp(2, all), static_cast<double>(kInf));
}

TEST_P(SamplingTest, ArgMaxIsTheFirstOfEquals) {
  for (const size_t n : Lengths()) {
    Floats x = Numbers(n).Uniform(n, -1.0f, 1.0f);
    for (const size_t first : {size_t{0}, n / 2, n - 1}) {
      Floats y(x);
      y[first] = 5.0f;
      y[n - 1] = 5.0f;
      EXPECT_EQ(ArgMax(n, y.data()), first);
    }
  }
  const float zeros[] = {-0.0f, 0.0f};
  EXPECT_EQ(ArgMax(2, zeros), 0u);
  const float none[] = {-kInf, -kInf};
  EXPECT_EQ(ArgMax(2, none), 0u);
}

TEST_P(SamplingTest, TopKEqualsAStableSortForEveryKWithManyTies) {
  const uint64_t seed = 72;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t n : Lengths()) {
    Floats x(n);
    for (float& value : x) {
      value = static_cast<float>(numbers.Below(n / 2 + 2)) - 3.0f;
    }
    x[numbers.Below(n)] = -kInf;
    std::vector<int32_t> sorted(n);
    std::iota(sorted.begin(), sorted.end(), 0);
    std::stable_sort(sorted.begin(), sorted.end(), [&x](int32_t a, int32_t b) {
      return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
    });
    for (const size_t k : {size_t{1}, (n + 1) / 2, n}) {
      std::vector<int32_t> top;
      TopK(n, x.data(), k, top);
      sorted.resize(n);
      EXPECT_EQ(top, std::vector<int32_t>(
                         sorted.begin(),
                         sorted.begin() + static_cast<std::ptrdiff_t>(k)));
    }
  }
}

}  // namespace
}  // namespace steadystate::softmax_test
