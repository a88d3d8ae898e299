// Goal: rotary positions are exact to float far into a sequence, in both
// layouts. Method: against long double angles, on every target.

#include "kernels/pointwise/rotary.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::rotary_test {
namespace {

// The angles of a position for base 10000.
void Angles(size_t d, uint64_t position, float* cos, float* sin) {
  std::vector<double> frequencies(d / 2);
  RotaryFrequencies(d, 10000.0, frequencies.data());
  RotaryAngles(d, position, frequencies.data(), cos, sin);
}

TEST(RotaryAnglesTest, AreExactToFloatFarIntoASequence) {
  constexpr size_t kWidth = 64;
  for (const uint64_t position :
       {0ull, 1ull, 4095ull, 10'000'000ull, 123'456'789ull}) {
    float cos[kWidth / 2];
    float sin[kWidth / 2];
    Angles(kWidth, position, cos, sin);
    for (size_t i = 0; i < kWidth / 2; ++i) {
      const long double exponent = -2.0L * static_cast<long double>(i) / kWidth;
      const long double angle =
          static_cast<long double>(position) * std::pow(10000.0L, exponent);
      EXPECT_NEAR(static_cast<double>(cos[i]),
                  static_cast<double>(std::cos(angle)), 2e-7);
      EXPECT_NEAR(static_cast<double>(sin[i]),
                  static_cast<double>(std::sin(angle)), 2e-7);
    }
  }
}

class ApplyRotaryTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ApplyRotaryTest);

TEST_P(ApplyRotaryTest, GoldenRotation) {
  float x[] = {1.0f, 2.0f, 3.0f, 4.0f};
  float cos[2];
  float sin[2];
  Angles(4, 3, cos, sin);
  ApplyRotary(4, cos, sin, x);
  const double golden[] = {-1.413353, 1.879118, -2.828857, 4.058191};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(static_cast<double>(x[i]), golden[i], 1e-6);
  }
}

TEST_P(ApplyRotaryTest, MatchesTheFormulaForEveryWidth) {
  const uint64_t seed = 31;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t half = 1; half <= 67; ++half) {
    const Floats before = numbers.Uniform(2 * half, -2.0f, 2.0f);
    Floats cos(half);
    Floats sin(half);
    Angles(2 * half, 12345, cos.data(), sin.data());
    Floats x(before);
    ApplyRotary(2 * half, cos.data(), sin.data(), x.data());
    for (size_t i = 0; i < half; ++i) {
      const double c = static_cast<double>(cos[i]);
      const double s = static_cast<double>(sin[i]);
      const double x1 = static_cast<double>(before[i]);
      const double x2 = static_cast<double>(before[half + i]);
      EXPECT_NEAR(static_cast<double>(x[i]), x1 * c - x2 * s, 5e-7);
      EXPECT_NEAR(static_cast<double>(x[half + i]), x2 * c + x1 * s, 5e-7);
    }
  }
}

TEST_P(ApplyRotaryTest, InterleavedRotatesTheSamePairsInOtherPlaces) {
  const uint64_t seed = 32;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t half = 1; half <= 67; ++half) {
    Floats split = numbers.Uniform(2 * half, -2.0f, 2.0f);
    Floats x(2 * half);
    for (size_t i = 0; i < half; ++i) {
      x[2 * i] = split[i];
      x[2 * i + 1] = split[half + i];
    }
    Floats cos(half);
    Floats sin(half);
    Angles(2 * half, 12345, cos.data(), sin.data());
    ApplyRotary(2 * half, cos.data(), sin.data(), split.data());
    ApplyRotaryInterleaved(2 * half, cos.data(), sin.data(), x.data());
    for (size_t i = 0; i < half; ++i) {
      EXPECT_TRUE(SameBits(x[2 * i], split[i])) << half << " " << i;
      EXPECT_TRUE(SameBits(x[2 * i + 1], split[half + i])) << half << " " << i;
    }
  }
}

}  // namespace
}  // namespace steadystate::rotary_test
