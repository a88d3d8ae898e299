// Goal: rows become bytes and sums of bytes become numbers by the stated
// formulas, on every target, at every length. Method: the formulas in plain
// C++, and rows at the ends of what floats can say.

#include "kernels/linear/quantize.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::quantize_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr ByteRange kRanges[] = {{127, 0}, {127, 128}, {63, 64}, {1, 2}};

class QuantizeTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(QuantizeTest);

TEST_P(QuantizeTest, RoundsToTheNearestMultipleOfTheScale) {
  const uint64_t seed = 91;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const ByteRange range : kRanges) {
    for (size_t n = 1; n <= 140; ++n) {
      const Floats x = numbers.Uniform(n, -3.0f, 2.0f);
      float largest = 0;
      for (const float value : x) largest = std::max(largest, std::abs(value));
      std::vector<uint8_t> bytes(n);
      const float scale = QuantizeRow(n, x.data(), range, bytes.data());
      const auto limit = static_cast<float>(range.limit);
      EXPECT_EQ(scale, largest / limit);
      for (size_t i = 0; i < n; ++i) {
        const float nearest = std::nearbyint(x[i] * (limit / largest));
        ASSERT_LE(std::abs(nearest), limit);
        ASSERT_EQ(bytes[i],
                  static_cast<uint8_t>(static_cast<int>(nearest) + range.zero))
            << "element " << i << " of " << n;
      }
    }
  }
}

TEST_P(QuantizeTest, TiesGoToEven) {
  const float x[] = {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, -127.0f};
  const int expected[] = {127, 0, 2, 2, 0, -2, -2, -127};
  int8_t bytes[8];
  EXPECT_EQ(QuantizeRow(8, x, {}, reinterpret_cast<uint8_t*>(bytes)), 1.0f);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(bytes[i], expected[i]) << i;
}

TEST_P(QuantizeTest, RowsOfNothingAreZeros) {
  for (const float tiny : {0.0f, -0.0f, 1e-45f, -9e-31f}) {
    const std::vector<float> x(37, tiny);
    std::vector<uint8_t> bytes(x.size());
    EXPECT_EQ(QuantizeRow(x.size(), x.data(), {127, 128}, bytes.data()), 0.0f);
    EXPECT_EQ(bytes, std::vector<uint8_t>(x.size(), 128));
  }
}

TEST_P(QuantizeTest, TheLargestFloatsKeepTheirPlace) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float x[] = {kMost, -kMost, kMost / 2, 0.0f, 1e-38f};
  uint8_t bytes[5];
  const float scale = QuantizeRow(5, x, {127, 128}, bytes);
  EXPECT_EQ(scale, kMost / 127.0f);
  EXPECT_EQ(bytes[0], 255);
  EXPECT_EQ(bytes[1], 1);
  EXPECT_NEAR(bytes[2], 128 + 63.5, 0.5);
  EXPECT_EQ(bytes[3], 128);
  EXPECT_EQ(bytes[4], 128);
}

TEST_P(QuantizeTest, WhatIsNotFiniteIsToldByTheScale) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
    for (size_t n = 1; n <= 70; ++n) {
      std::vector<float> x(n, 1.0f);
      x[(n * 7) % n == 0 ? n / 2 : 0] = bad;
      std::vector<uint8_t> bytes(n);
      EXPECT_TRUE(std::isnan(QuantizeRow(n, x.data(), {63, 64}, bytes.data())));
      EXPECT_EQ(bytes, std::vector<uint8_t>(n, 64));
    }
  }
}

TEST_P(QuantizeTest, SumsBecomeNumbersAgain) {
  const uint64_t seed = 92;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 1; n <= 70; ++n) {
    std::vector<int32_t> sums(n);
    std::vector<int32_t> offsets(n);
    for (size_t i = 0; i < n; ++i) {
      sums[i] = static_cast<int32_t>(numbers.Below(2'000'000'000)) - 1'000'000;
      offsets[i] = static_cast<int32_t>(numbers.Below(1'000'000));
    }
    const Floats scales = numbers.Uniform(n, 1e-4f, 1e-3f);
    const Floats bias = numbers.Uniform(n, -1.0f, 1.0f);
    const float row_scale = numbers.Uniform(0.01f, 0.1f);
    Floats plain(n);
    Floats biased(n);
    DequantizeRow(n, sums.data(), offsets.data(), row_scale, scales.data(),
                  nullptr, plain.data());
    DequantizeRow(n, sums.data(), offsets.data(), row_scale, scales.data(),
                  bias.data(), biased.data());
    for (size_t i = 0; i < n; ++i) {
      const float expected =
          static_cast<float>(sums[i] - offsets[i]) * (row_scale * scales[i]);
      EXPECT_EQ(plain[i], expected) << i << " of " << n;
      EXPECT_NEAR(biased[i], expected + bias[i],
                  1e-6f * (std::abs(expected) + 1.0f));
    }
  }
}

TEST_P(QuantizeTest, ANanScaleMakesEverySumNan) {
  const int32_t sums[] = {0, 5, -7};
  const int32_t offsets[] = {0, 5, 0};
  const float scales[] = {0.0f, 1.0f, 2.0f};
  float y[3];
  DequantizeRow(3, sums, offsets, kNan, scales, nullptr, y);
  for (const float value : y) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace steadystate::quantize_test
