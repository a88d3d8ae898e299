// Goal: the noise of rounding is uniform, independent from element to element
// and from place to place, and the same everywhere. Method: its statistics over
// many matrices, on every target.

#include "kernels/state/rounding_noise.h"

#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "hwy/tests/hwy_gtest.h"

namespace steadystate::rounding_noise_test {
namespace {

constexpr size_t kRows = 37;
constexpr size_t kColumns = 35;

struct Noise {
  std::vector<uint32_t> rows = std::vector<uint32_t>(kRows);
  std::vector<uint32_t> columns = std::vector<uint32_t>(kColumns);

  explicit Noise(RoundingPlace place) {
    MakeRoundingNoise(place, 16, kRows, kColumns, rows.data(), columns.data());
  }
  // In [-1/2, 1/2], of variance 1/12.
  double At(size_t i, size_t j) const {
    return (rows[i] ^ columns[j]) / 65535.0 - 0.5;
  }
};

class RoundingNoiseTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(RoundingNoiseTest);

// Of products of uncorrelated noises, or of noises, each of variance v.
void ExpectMeanOfZero(double sum, double count, double v) {
  EXPECT_LT(std::abs(sum), 5 * std::sqrt(v * count));
}

TEST_P(RoundingNoiseTest, IsUniformAndIndependent) {
  double sum = 0, squares = 0, of_rows = 0, of_columns = 0, of_times = 0,
         of_places = 0;
  constexpr uint64_t kTimes = 200;
  for (uint64_t t = 0; t < kTimes; ++t) {
    const Noise now({.position = t, .offset = 64});
    const Noise next({.position = t + 1, .offset = 64});
    const Noise elsewhere({.position = t, .offset = 64 + 8192});
    for (size_t i = 1; i < kRows; ++i) {
      for (size_t j = 1; j < kColumns; ++j) {
        ASSERT_LT(now.rows[i], 65536u);
        ASSERT_LT(now.columns[j], 65536u);
        const double at = now.At(i, j);
        sum += at;
        squares += at * at - 1.0 / 12;
        of_rows += at * now.At(i - 1, j);
        of_columns += at * now.At(i, j - 1);
        of_times += at * next.At(i, j);
        of_places += at * elsewhere.At(i, j);
      }
    }
  }
  constexpr double kCount = kTimes * (kRows - 1) * (kColumns - 1);
  ExpectMeanOfZero(sum, kCount, 1.0 / 12);
  ExpectMeanOfZero(squares, kCount, 1.0 / 180);
  for (const double product : {of_rows, of_columns, of_times, of_places}) {
    ExpectMeanOfZero(product, kCount, 1.0 / 144);
  }
}

// A readout is a sum over rows: its error's variance is that of as many
// independent errors.
TEST_P(RoundingNoiseTest, SumsOverRowsHaveTheVarianceOfIndependentNoise) {
  double squares = 0;
  constexpr uint64_t kTimes = 400;
  for (uint64_t t = 0; t < kTimes; ++t) {
    const Noise noise({.position = t, .offset = 0});
    for (size_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (size_t i = 0; i < kRows; ++i) sum += noise.At(i, j);
      squares += sum * sum;
    }
  }
  EXPECT_NEAR(squares / (kTimes * kColumns) / (kRows / 12.0), 1, 0.1);
}

TEST_P(RoundingNoiseTest, FewerBitsAreTheUpperOnes) {
  const Noise all({.position = 3, .offset = 64});
  std::vector<uint32_t> rows(kRows), columns(kColumns);
  MakeRoundingNoise({.position = 3, .offset = 64}, 7, kRows, kColumns,
                    rows.data(), columns.data());
  for (size_t i = 0; i < kRows; ++i) EXPECT_EQ(rows[i], all.rows[i] >> 9);
  for (size_t j = 0; j < kColumns; ++j) {
    EXPECT_EQ(columns[j], all.columns[j] >> 9);
  }
}

TEST_P(RoundingNoiseTest, EveryTargetGivesTheSameBits) {
  // Independent of Highway: the hash, written out.
  const Noise noise({.position = 7, .offset = 4096});
  const auto mixed = [](uint64_t x) {
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  };
  const uint64_t seed = mixed(mixed(7) + 4096);
  const auto hash = [&](size_t n) {
    auto x =
        static_cast<uint32_t>(n) * 0x9E3779B9u + static_cast<uint32_t>(seed);
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return (x ^ static_cast<uint32_t>(seed >> 32)) >> 16;
  };
  for (size_t i = 0; i < kRows; ++i) EXPECT_EQ(noise.rows[i], hash(i)) << i;
  for (size_t j = 0; j < kColumns; ++j) {
    EXPECT_EQ(noise.columns[j], hash(kRows + j)) << j;
  }
}

}  // namespace
}  // namespace steadystate::rounding_noise_test
