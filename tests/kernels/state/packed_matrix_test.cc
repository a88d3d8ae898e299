// Goal: what is kept in 16 bits is as near as they allow, in the mean exact,
// the same on every target, and stays what it is when nothing happens. Method:
// random matrices of every width of a tail, packed and unpacked, each target
// beside the scalar one and the definition.

#include "tests/kernels/state/packed_matrix.h"

#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/simd_targets.h"

namespace steadystate::packed_matrix_test {
namespace {

using Type = PackedMatrix::Type;

class PackedMatrixTest
    : public testing::TestWithParam<std::tuple<int64_t, Type>> {
 protected:
  PackedMatrixTest() {
    hwy::SetSupportedTargetsForTest(std::get<0>(GetParam()));
  }
  ~PackedMatrixTest() override { hwy::SetSupportedTargetsForTest(0); }

  Type type() const { return std::get<1>(GetParam()); }

  // A unit in the last place that an element may have, beside the largest
  // of its block.
  double Unit(double value, double largest) const {
    int exponent = 0;
    if (type() == Type::kBf16) {
      std::frexp(value, &exponent);
      return std::ldexp(1.0, exponent - 8);
    }
    // More than 2^15 - 2^7 units are in the next power of two.
    std::frexp(largest * 256 / 255, &exponent);
    return std::ldexp(1.01, exponent - 15);
  }
};

INSTANTIATE_TEST_SUITE_P(
    Targets, PackedMatrixTest,
    testing::Combine(testing::ValuesIn(SimdTargets()),
                     testing::Values(Type::kBf16, Type::kInt16)),
    [](const auto& instance) {
      return std::string(hwy::TargetName(std::get<0>(instance.param))) +
             (std::get<1>(instance.param) == Type::kBf16 ? "Bf16" : "Int16");
    });

double LargestOfBlock(const std::vector<float>& row, size_t j) {
  const size_t first = j / kInt16GroupColumns * kInt16GroupColumns;
  double largest = 0;
  for (size_t n = first; n < std::min(row.size(), first + kInt16GroupColumns);
       ++n) {
    largest = std::max(largest, std::abs(static_cast<double>(row[n])));
  }
  return largest;
}

TEST_P(PackedMatrixTest, EachElementIsOneOfItsTwoNeighbours) {
  Numbers numbers(61);
  for (size_t columns = 1; columns <= 132; ++columns) {
    constexpr size_t kRows = 3;
    PackedMatrix packed(type(), kRows, columns);
    std::vector<float> values(kRows * columns);
    for (float& value : values) {
      value = numbers.Uniform(-1, 1) * std::exp2(numbers.Uniform(-12, 12));
    }
    packed.Pack(values.data(), columns);
    const std::vector<float> kept = packed.Unpack();
    for (size_t i = 0; i < kRows; ++i) {
      const std::vector<float> row(values.data() + i * columns,
                                   values.data() + (i + 1) * columns);
      for (size_t j = 0; j < columns; ++j) {
        const auto exact = static_cast<double>(row[j]);
        const double unit = Unit(exact, LargestOfBlock(row, j));
        const auto actual = static_cast<double>(kept[i * columns + j]);
        EXPECT_LE(std::abs(actual - exact), unit) << columns << " " << i << j;
      }
    }
  }
}

TEST_P(PackedMatrixTest, WhatIsExactStays) {
  Numbers numbers(62);
  for (const size_t columns : {1u, 16u, 33u, 64u, 75u, 129u}) {
    PackedMatrix packed(type(), 5, columns);
    const Floats values = numbers.Uniform(5 * columns, -100, 100);
    packed.Pack(values.data(), 1);
    const std::vector<float> kept = packed.Unpack();
    for (uint64_t position = 2; position < 10; ++position) {
      packed.Pack(packed.Unpack().data(), position);
      ASSERT_EQ(packed.Unpack(), kept) << columns << " " << position;
    }
  }
}

TEST_P(PackedMatrixTest, IsExactInTheMean) {
  Numbers numbers(63);
  constexpr size_t kRows = 4;
  constexpr size_t kColumns = 40;
  constexpr int kTimes = 4000;
  PackedMatrix packed(type(), kRows, kColumns);
  const Floats values = numbers.Uniform(kRows * kColumns, -1, 1);
  std::vector<double> sums(values.size());
  for (int t = 0; t < kTimes; ++t) {
    packed.Pack(values.data(), static_cast<uint64_t>(t));
    const std::vector<float> kept = packed.Unpack();
    for (size_t n = 0; n < sums.size(); ++n) {
      sums[n] += static_cast<double>(kept[n]);
    }
  }
  for (size_t n = 0; n < sums.size(); ++n) {
    const auto exact = static_cast<double>(values[n]);
    // The variance of one rounding is at most a quarter of a unit's square.
    EXPECT_NEAR(sums[n] / kTimes, exact,
                5 * 0.5 * Unit(exact, 1) / std::sqrt(double{kTimes}));
  }
}

TEST_P(PackedMatrixTest, ZeroedMemoryIsZerosAndTinyValuesBecomeThem) {
  PackedMatrix packed(type(), 2, 40);
  EXPECT_EQ(packed.Unpack(), std::vector<float>(80));
  if (type() == Type::kBf16) return;
  packed.Pack(std::vector<float>(80, 1e-30f).data(), 1);
  EXPECT_EQ(packed.Unpack(), std::vector<float>(80));
}

TEST_P(PackedMatrixTest, LargeAndSmallSurvive) {
  for (const float size : {3e38f, 1e20f, 1e-20f, 7e-30f}) {
    PackedMatrix packed(type(), 1, 33);
    const std::vector<float> values(33, -size);
    if (type() == Type::kInt16 && size < 1e-29f) continue;  // zeros, see above
    packed.Pack(values.data(), 1);
    for (const float kept : packed.Unpack()) {
      EXPECT_NEAR(static_cast<double>(kept / -size), 1.0, 0.01);
    }
  }
}

TEST_P(PackedMatrixTest, WhatIsNotFiniteIsNeverTakenForFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float largest_nan = std::bit_cast<float>(0x7FFFFFFFu);
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, -nan, largest_nan, infinity, -infinity}) {
    for (const size_t at : {0u, 5u, 63u, 68u}) {
      PackedMatrix packed(type(), 1, 70);
      std::vector<float> values(70, 1.5f);
      values[at] = bad;
      packed.Pack(values.data(), 3);
      EXPECT_FALSE(std::isfinite(packed.Unpack()[at])) << bad << " " << at;
      // The other block is left alone.
      EXPECT_EQ(packed.Unpack()[at < 64 ? 66 : 3], 1.5f);
    }
  }
}

TEST_P(PackedMatrixTest, EveryTargetKeepsTheSameBits) {
  Numbers numbers(64);
  for (const size_t columns : {1u, 7u, 31u, 32u, 33u, 64u, 100u, 130u}) {
    Floats values = numbers.Uniform(6 * columns, -1, 1);
    for (float& value : values) value *= std::exp2(numbers.Uniform(-9, 9));
    PackedMatrix packed(type(), 6, columns);
    packed.Pack(values.data(), columns);
    const std::vector<float> kept = packed.Unpack();
    hwy::SetSupportedTargetsForTest(SimdTargets().back());
    PackedMatrix other(type(), 6, columns);
    other.Pack(values.data(), columns);
    EXPECT_EQ(packed.bf16, other.bf16);
    EXPECT_EQ(packed.int16, other.int16);
    EXPECT_EQ(packed.exponents, other.exponents);
    EXPECT_EQ(kept, other.Unpack());
    hwy::SetSupportedTargetsForTest(std::get<0>(GetParam()));
  }
}

}  // namespace
}  // namespace steadystate::packed_matrix_test
