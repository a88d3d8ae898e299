// Conversions are exact or correctly rounded for every bit pattern.

#include "kernels/dtype.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::dtype_test {
namespace {

float FromBits(uint32_t bits) { return std::bit_cast<float>(bits); }

// The value of a half, by its definition.
double HalfValue(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa == 0 ? sign * HUGE_VAL
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  return all;
}

TEST(DTypeTest, EveryF16ConvertsExactly) {
  const std::vector<uint16_t> all = AllHalves();
  std::vector<float> values(all.size());
  ConvertToF32({all.data(), DType::kF16}, 0, all.size(), values.data());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(UlpError(values[i], HalfValue(all[i])), 0.0) << "bits " << i;
    EXPECT_EQ(std::signbit(values[i]), (all[i] & 0x8000) != 0) << i;
  }
}

TEST(DTypeTest, EveryBf16ConvertsExactly) {
  const std::vector<uint16_t> all = AllHalves();
  std::vector<float> values(all.size());
  ConvertToF32({all.data(), DType::kBf16}, 0, all.size(), values.data());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(SameBits(values[i], FromBits(static_cast<uint32_t>(i) << 16)))
        << "bits " << i;
  }
}

TEST(DTypeTest, ReadsFromTheFirstElementAtAnyAlignment) {
  const float values[] = {1.0f, -2.0f, 3.5f};
  std::vector<unsigned char> bytes(1 + sizeof(values));
  std::memcpy(bytes.data() + 1, values, sizeof(values));
  float out[2];
  ConvertToF32({bytes.data() + 1, DType::kF32}, 1, 2, out);
  EXPECT_EQ(out[0], -2.0f);
  EXPECT_EQ(out[1], 3.5f);
  ConvertToF32({nullptr, DType::kBf16}, 0, 0, out);
}

class ConvertToBf16Test : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ConvertToBf16Test);

uint16_t RoundOne(float value) {
  uint16_t result = 0;
  ConvertToBf16(1, &value, &result);
  return result;
}

TEST_P(ConvertToBf16Test, RoundsToNearestEven) {
  EXPECT_EQ(RoundOne(FromBits(0x3F800000)), 0x3F80);  // exact
  EXPECT_EQ(RoundOne(FromBits(0x3F808000)), 0x3F80);  // tie, even below
  EXPECT_EQ(RoundOne(FromBits(0x3F818000)), 0x3F82);  // tie, even above
  EXPECT_EQ(RoundOne(FromBits(0x3F808001)), 0x3F81);
  EXPECT_EQ(RoundOne(FromBits(0x3F807FFF)), 0x3F80);
  EXPECT_EQ(RoundOne(-0.0f), 0x8000);
  EXPECT_EQ(RoundOne(FromBits(0x7F7FFFFF)), 0x7F80);  // overflows to infinity
  EXPECT_EQ(RoundOne(-HUGE_VALF), 0xFF80);
  EXPECT_EQ(RoundOne(FromBits(0x00010001)), 0x0001);  // subnormals survive
  for (const uint32_t nan : {0x7F800001u, 0x7FFFFFFFu, 0xFFC00000u}) {
    EXPECT_TRUE(std::isnan(
        FromBits(static_cast<uint32_t>(RoundOne(FromBits(nan))) << 16)));
  }
}

TEST_P(ConvertToBf16Test, IsTheSameForEveryLengthAndAlignment) {
  const uint64_t seed = 3;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 0; n <= 35; ++n) {
    const Floats from = numbers.Uniform(n, -100.0f, 100.0f);
    std::vector<uint16_t> to(n);
    ConvertToBf16(n, from.data(), to.data());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(to[i], RoundOne(from[i]));
      const float back = FromBits(static_cast<uint32_t>(to[i]) << 16);
      EXPECT_LE(std::abs(back - from[i]), 0x1p-8f * std::abs(from[i]));
    }
  }
}

}  // namespace
}  // namespace steadystate::dtype_test
