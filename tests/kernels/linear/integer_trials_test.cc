// Goal: trials see every way in which a multiplication of bytes can lose
// something. Method: multiplications here that lose it on purpose.

#include "kernels/linear/integer_trials.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

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

// A way to multiply a row and a column that loses something, and the inputs
// from which on it can: with fewer, all of its sums are right.
struct WrongWay {
  const char* name;
  std::function<int32_t(std::span<const uint8_t>, std::span<const int8_t>)> dot;
  size_t loses_from;  // inputs
  // Likewise what a single rounding at the end would not.
  size_t differs_from_rounded_from;
};

int32_t Products(std::span<const uint8_t> x, std::span<const int8_t> w,
                 size_t begin, size_t end) {
  int32_t sum = 0;
  for (size_t i = begin; i < std::min(end, x.size()); ++i) {
    sum += int32_t{x[i]} * int32_t{w[i]};
  }
  return sum;
}

// Groups of `length` products are added up without loss, then in f32.
auto SumOfGroupsInF32(size_t length) {
  return [length](std::span<const uint8_t> x, std::span<const int8_t> w) {
    float sum = 0;
    for (size_t i = 0; i < x.size(); i += length) {
      sum += static_cast<float>(Products(x, w, i, i + length));
    }
    return static_cast<int32_t>(sum);
  };
}

// Groups of `length` products are added up in 16 bits.
auto SaturatedGroups(size_t length) {
  return [length](std::span<const uint8_t> x, std::span<const int8_t> w) {
    int32_t sum = 0;
    for (size_t i = 0; i < x.size(); i += length) {
      int32_t group = 0;
      for (size_t k = i; k < std::min(i + length, x.size()); ++k) {
        group = Saturated(group + Products(x, w, k, k + 1));
      }
      sum += group;
    }
    return sum;
  };
}

int32_t EvenAndOddInF32(std::span<const uint8_t> x, std::span<const int8_t> w) {
  float sums[2] = {0, 0};
  for (size_t i = 0; i < x.size(); ++i) {
    sums[i % 2] += static_cast<float>(Products(x, w, i, i + 1));
  }
  return static_cast<int32_t>(sums[0] + sums[1]);
}

int32_t RoundedTowardsZero(std::span<const uint8_t> x,
                           std::span<const int8_t> w) {
  const int32_t sum = Products(x, w, 0, x.size());
  auto rounded = static_cast<float>(sum);
  if (std::abs(static_cast<double>(rounded)) > std::abs(double{1} * sum)) {
    rounded = std::nextafter(rounded, 0.0f);
  }
  return static_cast<int32_t>(rounded);
}

std::vector<WrongWay> WrongWays() {
  // 519 times 255 times 127 is the first above 2^24.
  std::vector<WrongWay> ways = {
      {"pairs in 16 bits", SaturatedGroups(2), 2, 2},
      {"fours in 16 bits", SaturatedGroups(4), 2, 2},
      {"all in 16 bits", SaturatedGroups(SIZE_MAX / 2), 2, 2},
      {"rounded at the end", SumOfGroupsInF32(SIZE_MAX / 2), 519, SIZE_MAX},
      {"rounded towards zero", RoundedTowardsZero, 519, 525},
      {"even and odd in f32", EvenAndOddInF32, 519, 1060},
      {"inputs with a sign",
       [](std::span<const uint8_t> x, std::span<const int8_t> w) {
         int32_t sum = 0;
         for (size_t i = 0; i < x.size(); ++i) {
           sum += static_cast<int8_t>(x[i]) * int32_t{w[i]};
         }
         return sum;
       },
       1, 1},
      {"without the last",
       [](std::span<const uint8_t> x, std::span<const int8_t> w) {
         return Products(x, w, 0, x.size() - 1);
       },
       1, 1},
  };
  for (const size_t length : {1u, 2u, 4u, 64u, 256u}) {
    ways.push_back(
        {"groups in f32", SumOfGroupsInF32(length), 519, 519 + 3 * length});
  }
  return ways;
}

TEST(IntegerTrialsTest, EveryWrongWayIsFoundAtEveryNumberOfInputs) {
  for (const size_t in : {1u, 2u, 3u, 4u, 7u, 64u, 519u, 520u, 522u, 523u, 530u,
                          600u, 768u, 1000u, 1024u, 1300u, 2048u, 4096u}) {
    for (const size_t width : {1u, 2u, 16u}) {
      const IntegerTrials trials(in, width, 255);
      for (const WrongWay& way : WrongWays()) {
        SCOPED_TRACE(testing::Message()
                     << way.name << ", " << in << " x " << width);
        const auto multiply = [&](const uint8_t* x, int32_t* y) {
          for (size_t j = 0; j < width; ++j) {
            y[j] = way.dot({x, in}, {trials.weights() + j * in, in});
          }
        };
        EXPECT_EQ(trials.Exact(1, Sums::kWhole, multiply), in < way.loses_from);
        if (in >= way.differs_from_rounded_from) {
          EXPECT_FALSE(trials.Exact(1, Sums::kRoundedToF32, multiply));
        }
      }
    }
  }
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
