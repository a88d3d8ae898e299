// Goal: the numbers of trials are what is promised of them: spread evenly over
// their binades, in pairs that cancel, with the last input among them, and the
// same every time.

#include "kernels/linear/trial_numbers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"

namespace steadystate {
namespace {

constexpr size_t kRows = 64;

TEST(TrialNumbersTest, EveryBinadeAndSignIsAsLikely) {
  TrialNumbers numbers;
  constexpr int kDraws = 24000;
  std::vector<int> binades(24);
  int negative = 0;
  for (int i = 0; i < kDraws; ++i) {
    const float value = numbers.Spread(-12, 12);
    ASSERT_GE(std::abs(value), 0x1p-12f);
    ASSERT_LT(std::abs(value), 0x1p12f);
    ++binades[static_cast<size_t>(std::ilogb(value) + 12)];
    negative += value < 0;
  }
  for (const int count : binades) EXPECT_NEAR(count, kDraws / 24, 200);
  EXPECT_NEAR(negative, kDraws / 2, 500);
}

TEST(TrialNumbersTest, AllThatIsBelowIsDrawn) {
  TrialNumbers numbers;
  std::vector<int> counts(7);
  for (int i = 0; i < 7000; ++i) ++counts[numbers.Below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(numbers.Below(1), 0u);
}

TEST(TellingNumbersTest, AreTheSameEveryTime) {
  TellingNumbers a(33);
  TellingNumbers b(33);
  std::vector<float> of_a(33);
  std::vector<float> of_b(33);
  for (size_t row = 0; row < kRows; ++row) {
    a.FillColumn(of_a.data());
    b.FillColumn(of_b.data());
    EXPECT_EQ(of_a, of_b);
    a.FillRow(of_a.data());
    b.FillRow(of_b.data());
    EXPECT_EQ(of_a, of_b);
  }
}

// Pairs of inputs whose products are large and cancel in every column.
TEST(TellingNumbersTest, EveryInputCancelsInSomeRowButOneOfAnOddNumber) {
  for (const size_t in : {2u, 3u, 8u, 17u, 31u, 64u}) {
    TellingNumbers numbers(in);
    std::vector<std::vector<float>> columns(3, std::vector<float>(in));
    for (std::vector<float>& column : columns)
      numbers.FillColumn(column.data());
    std::vector<bool> cancels(in);
    std::vector<float> row(in);
    for (size_t r = 0; r < 4 * kRows; ++r) {
      numbers.FillRow(row.data());
      for (size_t i = 0; i < in; ++i) {
        for (size_t j = 0; j < in; ++j) {
          if (i == j || row[i] != row[j] || std::abs(row[i]) < 1) continue;
          cancels[i] = true;
          for (const std::vector<float>& column : columns) {
            EXPECT_EQ(column[i], -column[j]);
          }
        }
      }
    }
    EXPECT_TRUE(cancels[in - 1]) << in;
    EXPECT_EQ(std::ranges::count(cancels, false), in % 2) << in;
  }
}

TEST(TellingNumbersTest, SumsOfTheMostInputsAreFinite) {
  constexpr size_t kIn = 65536;
  TellingNumbers numbers(kIn);
  std::vector<float> column(kIn);
  std::vector<float> row(kIn);
  numbers.FillColumn(column.data());
  for (size_t r = 0; r < 4; ++r) {
    numbers.FillRow(row.data());
    float magnitude = 0;
    for (size_t i = 0; i < kIn; ++i) magnitude += std::abs(row[i] * column[i]);
    EXPECT_LT(magnitude, 1e20f);
  }
}

}  // namespace
}  // namespace steadystate
