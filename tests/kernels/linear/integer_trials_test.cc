// Goal: trials see every way in which a multiplication of bytes can lose
// something. Method: multiplications here that lose it on purpose.

#include "kernels/linear/integer_trials.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

using Sums = IntegerTrials::Sums;

constexpr size_t kIn = 6;
constexpr size_t kWidth = 5;

int32_t Saturated(int32_t value) {
  return std::clamp<int32_t>(value, INT16_MIN, INT16_MAX);
}

// Pairs of products added in 32 bits, or in 16 as by a CPU without VNNI.
auto Multiply(const IntegerTrials& trials, size_t rows, bool saturate) {
  return [&trials, rows, saturate](const uint8_t* x, int32_t* y) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < kWidth; ++j) {
        int32_t sum = 0;
        for (size_t i = 0; i < kIn; i += 2) {
          const uint8_t* const a = x + r * kIn + i;
          const int8_t* const w = trials.weights() + j * kIn + i;
          const int32_t pair = a[0] * w[0] + a[1] * w[1];
          sum += saturate ? Saturated(pair) : pair;
        }
        y[r * kWidth + j] = sum;
      }
    }
  };
}

TEST(IntegerTrialsTest, ExactSumsOfAllSizesPass) {
  for (const uint8_t most : {uint8_t{127}, uint8_t{255}}) {
    const IntegerTrials trials(kIn, kWidth, most);
    for (const size_t rows : {1u, 2u, 3u, 4u, 17u}) {
      EXPECT_TRUE(
          trials.Exact(rows, Sums::kWhole, Multiply(trials, rows, false)));
    }
  }
}

TEST(IntegerTrialsTest, SaturationIsFoundWhereTheRangeAllowsIt) {
  const IntegerTrials all(kIn, kWidth, 255);
  const IntegerTrials half(kIn, kWidth, 127);
  for (const size_t rows : {1u, 2u, 3u, 4u, 17u}) {
    EXPECT_FALSE(all.Exact(rows, Sums::kWhole, Multiply(all, rows, true)));
    EXPECT_TRUE(half.Exact(rows, Sums::kWhole, Multiply(half, rows, true)));
  }
}

// Above 2^24, which takes many inputs.
TEST(IntegerTrialsTest, RoundedSumsAreToldFromWholeOnes) {
  constexpr size_t kManyInputs = 4096;
  constexpr size_t kRows = 4;
  const IntegerTrials trials(kManyInputs, kWidth, 255);
  const auto multiply = [&trials](bool round) {
    return [&trials, round](const uint8_t* x, int32_t* y) {
      for (size_t i = 0; i < kRows * kWidth; ++i) {
        const uint8_t* const row = x + i / kWidth * kManyInputs;
        const int8_t* const column =
            trials.weights() + i % kWidth * kManyInputs;
        y[i] = std::inner_product(row, row + kManyInputs, column, 0);
        if (round) y[i] = static_cast<int32_t>(static_cast<float>(y[i]));
      }
    };
  };
  EXPECT_TRUE(trials.Exact(kRows, Sums::kWhole, multiply(false)));
  EXPECT_FALSE(trials.Exact(kRows, Sums::kWhole, multiply(true)));
  EXPECT_TRUE(trials.Exact(kRows, Sums::kRoundedToF32, multiply(true)));
  EXPECT_FALSE(trials.Exact(kRows, Sums::kRoundedToF32, multiply(false)));
}

TEST(IntegerTrialsTest, OneWrongSumIsFoundWhereverItIs) {
  const IntegerTrials trials(kIn, kWidth, 255);
  constexpr size_t kRows = 5;
  for (size_t bad = 0; bad < kRows * kWidth; ++bad) {
    EXPECT_FALSE(trials.Exact(kRows, Sums::kWhole,
                              [&](const uint8_t* x, int32_t* y) {
                                Multiply(trials, kRows, false)(x, y);
                                ++y[bad];
                              }))
        << bad;
  }
}

}  // namespace
}  // namespace steadystate
