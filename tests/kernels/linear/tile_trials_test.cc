// Trials must see every way in which a multiplication can betray a row. The
// multiplications here are fakes that do so on purpose.

#include "kernels/linear/tile_trials.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

constexpr size_t kIn = 5;
constexpr size_t kWidth = 3;

// A tile multiplication of `rows` rows whose result is spoiled at one position.
auto Multiply(size_t rows, size_t bad_position, float error) {
  return [=](const void* x, float* y) {
    std::vector<float> values(rows * kIn);
    std::memcpy(values.data(), x, values.size() * sizeof(float));
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < kWidth; ++j) {
        float sum = r == bad_position ? error : 0.0f;
        for (size_t i = 0; i < kIn; ++i) {
          sum += values[r * kIn + i] * static_cast<float>(i + j);
        }
        y[r * kWidth + j] = sum;
      }
    }
  };
}

TEST(TileTrialsTest, HonestTilesOfAllSizesAgree) {
  const TileTrials trials(kIn, kWidth, DType::kF32);
  const TileTrial one = trials.Try(1, Multiply(1, 99, 0.0f));
  EXPECT_TRUE(one.position_free);
  for (const size_t rows : {2u, 4u, 7u, 8u, 16u, 33u}) {
    const TileTrial trial = trials.Try(rows, Multiply(rows, 99, 0.0f));
    EXPECT_EQ(trial.rows, rows);
    EXPECT_TRUE(trial.position_free);
    EXPECT_EQ(trial.results, one.results);
  }
}

TEST(TileTrialsTest, OneBadPositionIsFoundWhereverItIs) {
  const TileTrials trials(kIn, kWidth, DType::kF32);
  for (const size_t rows : {2u, 4u, 8u, 16u, 33u}) {
    for (size_t bad = 0; bad < rows; ++bad) {
      EXPECT_FALSE(trials.Try(rows, Multiply(rows, bad, 1e-3f)).position_free)
          << rows << " " << bad;
    }
  }
}

TEST(TileTrialsTest, AnInfluenceOfNeighboursIsFound) {
  const TileTrials trials(kIn, kWidth, DType::kF32);
  constexpr size_t kRows = 4;
  const auto leaking = [](const void* x, float* y) {
    Multiply(kRows, 99, 0.0f)(x, y);
    float first = 0;
    std::memcpy(&first, x, sizeof(first));
    y[2 * kWidth] += first;
  };
  EXPECT_FALSE(trials.Try(kRows, leaking).position_free);
}

TEST(TrialNumbersTest, AreTheSameEveryTimeAndFillTheRange) {
  std::vector<float> a(1000);
  std::vector<float> b(1000);
  TrialNumbers().Fill(a.size(), DType::kF32, a.data());
  TrialNumbers().Fill(b.size(), DType::kF32, b.data());
  EXPECT_EQ(a, b);
  float low = 0;
  float high = 0;
  for (const float value : a) {
    EXPECT_LE(value, 1.0f);
    EXPECT_GE(value, -1.0f);
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  EXPECT_LT(low, -0.9f);
  EXPECT_GT(high, 0.9f);
}

}  // namespace
}  // namespace steadystate
