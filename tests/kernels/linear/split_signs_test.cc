// Goal: a row of bytes is split into magnitudes and masks, and the sum that is
// returned is what products with turned weights leave out, on every target.
// Method: each byte by plain C++; all bytes there are; a row that is split
// where it lies.

#include "kernels/linear/split_signs.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::split_signs_test {
namespace {

class SplitSignsTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(SplitSignsTest);

// -127 to 127.
std::vector<int8_t> Bytes(size_t n, Numbers& numbers) {
  std::vector<int8_t> bytes;
  for (size_t i = 0; i < n; ++i) {
    bytes.push_back(
        static_cast<int8_t>(static_cast<int>(numbers.Below(255)) - 127));
  }
  return bytes;
}

TEST_P(SplitSignsTest, FoursOfMagnitudesAndMasksFollowEachOther) {
  std::vector<int8_t> x(4 * kSplitGrain);
  for (size_t i = 0; i < x.size(); ++i) {
    const int value = static_cast<int>(i) - 127;
    x[i] = static_cast<int8_t>(value > 127 ? 0 : value);
  }
  std::vector<uint8_t> split(2 * x.size());
  int32_t left_out = 0;
  const int32_t result = SplitSigns(
      x.size(), reinterpret_cast<const uint8_t*>(x.data()), split.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t at = i / 4 * 8 + i % 4;
    ASSERT_EQ(split[at], std::abs(x[i])) << i;
    ASSERT_EQ(split[at + 4], x[i] < 0 ? 0xFF : 0) << i;
    if (x[i] < 0) left_out -= x[i];
  }
  EXPECT_EQ(result, left_out);
}

TEST_P(SplitSignsTest, ProductsWithTurnedWeightsAndTheSumAreTheProduct) {
  const uint64_t seed = 95;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t n : {kSplitGrain, 3 * kSplitGrain, 40 * kSplitGrain}) {
    const std::vector<int8_t> x = Bytes(n, numbers);
    const std::vector<int8_t> weights = Bytes(n, numbers);
    std::vector<uint8_t> split(2 * n);
    int32_t sum =
        SplitSigns(n, reinterpret_cast<const uint8_t*>(x.data()), split.data());
    int32_t exact = 0;
    for (size_t i = 0; i < n; ++i) {
      const uint8_t* const four = split.data() + i / 4 * 8 + i % 4;
      const auto turned = static_cast<int8_t>(weights[i] ^ four[4]);
      sum += int32_t{four[0]} * turned;
      exact += int32_t{x[i]} * weights[i];
    }
    EXPECT_EQ(sum, exact) << n;
  }
}

TEST_P(SplitSignsTest, ARowIsSplitWhereItLies) {
  const uint64_t seed = 96;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = kSplitGrain; n <= 12 * kSplitGrain; n += kSplitGrain) {
    const std::vector<int8_t> x = Bytes(n, numbers);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(x.data());
    std::vector<uint8_t> apart(2 * n);
    const int32_t left_out = SplitSigns(n, bytes, apart.data());
    std::vector<uint8_t> row(2 * n);
    std::memcpy(row.data() + n, bytes, n);
    EXPECT_EQ(SplitSigns(n, row.data() + n, row.data()), left_out);
    EXPECT_EQ(row, apart);
  }
}

}  // namespace
}  // namespace steadystate::split_signs_test
