// Goal: the product of int4 groups is its formula to the bit, on every SIMD
// target, by every kind of instruction, whoever shares the call; rounding is as
// near as its bits allow and hides nothing. Method: the formula in whole
// numbers and single roundings; rows beside others and alone.

#include "kernels/linear/int4_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/dtype.h"
#include "kernels/linear/int4_weights.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/simd_targets.h"

namespace steadystate::int4_product_test {
namespace {

class Int4Test : public testing::TestWithParam<int64_t> {
 protected:
  Int4Test() { hwy::SetSupportedTargetsForTest(GetParam()); }
  ~Int4Test() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, Int4Test, testing::ValuesIn(SimdTargets()),
                         [](const auto& instance) {
                           return std::string(hwy::TargetName(instance.param));
                         });

float FromBf16(uint16_t bits) {
  float value = 0;
  ConvertToF32({&bits, DType::kBf16}, 0, 1, &value);
  return value;
}

// Where a weight of a group lies: its byte, and which half.
int Stored(const uint8_t* weights, size_t k, size_t column) {
  const uint8_t both =
      weights[k % 16 / 4 * kInt4Panel * 4 + 4 * column + k % 4];
  return k < 16 ? both & 15 : both >> 4;
}

// Weights of any bytes, scales of any size, and rows.
struct Case {
  Case(size_t group_count, size_t panel_count, size_t row_count,
       Numbers& numbers)
      : groups(group_count),
        panels(panel_count),
        rows(row_count),
        weights(groups * Int4GroupBytes(panels)),
        x(groups * rows) {
    for (uint8_t& byte : weights) {
      byte = static_cast<uint8_t>(numbers.Below(256));
    }
    for (size_t g = 0; g < groups; ++g) {
      for (size_t j = 0; j < panels * kInt4Panel; ++j) {
        const float value = numbers.Uniform(-1.0f, 1.0f);
        uint16_t bits = 0;
        ConvertToBf16(1, &value, &bits);
        std::memcpy(weights.data() + ScaleAt(g, j), &bits, sizeof(bits));
      }
    }
    for (size_t r = 0; r < rows; ++r) {
      const Floats row = numbers.Uniform(groups * kInt4Group, -2.0f, 2.0f);
      RoundInt4Inputs(row.size(), row.data(), x.data() + r, rows);
    }
    // The largest sums that there are.
    std::fill_n(weights.begin(), kInt4PanelBytes, uint8_t{0xFF});
    for (Int4Inputs& group : x) {
      if (numbers.Below(4) != 0) continue;
      std::fill_n(group.x, kInt4Group, int8_t{127});
      group.offset = -kInt4Zero * 127 * static_cast<int>(kInt4Group);
    }
  }

  // The byte where the scale of a column's group is.
  size_t ScaleAt(size_t group, size_t column) const {
    return group * Int4GroupBytes(panels) + panels * kInt4PanelBytes +
           2 * column;
  }

  // Rows [first, first + count), onto 1.
  std::vector<float> Run(size_t first, size_t count,
                         ByteProducts products) const {
    std::vector<float> sums(count * kInt4BlockColumns, 1.0f);
    MultiplyInt4({groups, panels, weights.data(), count, x.data() + first, rows,
                  sums.data()},
                 products);
    return sums;
  }

  float Formula(size_t r, size_t column) const {
    float sum = 1.0f;
    for (size_t g = 0; g < groups; ++g) {
      const uint8_t* const panel = weights.data() + g * Int4GroupBytes(panels) +
                                   column / kInt4Panel * kInt4PanelBytes;
      const Int4Inputs& in = x[g * rows + r];
      int whole = 0;
      for (size_t k = 0; k < kInt4Group; ++k) {
        const int weight = Stored(panel, k, column % kInt4Panel);
        whole += (weight - kInt4Zero) * in.x[k];
      }
      uint16_t bits = 0;
      std::memcpy(&bits, weights.data() + ScaleAt(g, column), sizeof(bits));
      const float scaled = static_cast<float>(whole) * in.scale;
      const float scale = FromBf16(bits);
      // Rounded before it is added.
      volatile float product = scaled * scale;
      sum += product;
    }
    return sum;
  }

  size_t groups;
  size_t panels;
  size_t rows;
  std::vector<uint8_t> weights;
  std::vector<Int4Inputs> x;
};

TEST_P(Int4Test, IsItsFormulaToTheBit) {
  const uint64_t seed = 401;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t groups : {1u, 2u, 7u}) {
    for (size_t panels = 1; panels <= 4; ++panels) {
      for (const size_t rows : {1u, 2u, 9u, 64u}) {
        SCOPED_TRACE(testing::Message() << groups << " groups, " << panels
                                        << " panels, " << rows << " rows");
        const Case example(groups, panels, rows, numbers);
        const auto sums = example.Run(0, rows, ByteProducts::kBest);
        ASSERT_EQ(sums, example.Run(0, rows, ByteProducts::kPlain));
        for (size_t r = 0; r < rows; ++r) {
          for (size_t j = 0; j < kInt4BlockColumns; ++j) {
            const bool computed = j < panels * kInt4Panel;
            ASSERT_EQ(sums[r * kInt4BlockColumns + j],
                      computed ? example.Formula(r, j) : 1.0f)
                << "row " << r << " column " << j;
          }
        }
      }
    }
  }
}

TEST_P(Int4Test, ARowIsWhatItIsAlone) {
  Numbers numbers(402);
  constexpr size_t kRows = 64;
  const Case example(3, 4, kRows, numbers);
  const auto together = example.Run(0, kRows, ByteProducts::kBest);
  for (size_t r = 0; r < kRows; ++r) {
    const auto alone = example.Run(r, 1, ByteProducts::kBest);
    ASSERT_EQ(0,
              std::memcmp(alone.data(), together.data() + r * kInt4BlockColumns,
                          sizeof(float) * kInt4BlockColumns))
        << r;
  }
}

TEST_P(Int4Test, InputsAreRoundedToTheNearestOfTheirGroup) {
  Numbers numbers(403);
  for (const size_t in : {1u, 31u, 32u, 33u, 100u}) {
    SCOPED_TRACE(in);
    const Floats x = numbers.Uniform(in, -3.0f, 1.0f);
    std::vector<Int4Inputs> rows(2 * Int4Groups(in));
    RoundInt4Inputs(in, x.data(), rows.data(), 2);
    for (size_t g = 0; g < Int4Groups(in); ++g) {
      const Int4Inputs& group = rows[2 * g];
      const size_t first = g * kInt4Group;
      const size_t end = std::min(in, first + kInt4Group);
      float largest = 0;
      int sum = 0;
      for (size_t i = first; i < end; ++i) {
        largest = std::max(largest, std::abs(x[i]));
      }
      EXPECT_EQ(group.scale, largest / 127.0f);
      for (size_t k = 0; k < kInt4Group; ++k) {
        const bool there = first + k < in;
        const float exact = there ? x[first + k] * (127.0f / largest) : 0.0f;
        EXPECT_EQ(group.x[k], std::nearbyint(exact));
        sum += group.x[k];
      }
      EXPECT_EQ(group.offset, -8 * sum);
    }
  }
}

TEST_P(Int4Test, InputsOfNoSizeAreZerosAndInfiniteOnesStayKnown) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x(4 * kInt4Group, 1e-31f);
  x[kInt4Group] = 1.0f;
  x[2 * kInt4Group + 31] = -kInfinity;
  x[3 * kInt4Group + 5] = std::numeric_limits<float>::quiet_NaN();
  std::vector<Int4Inputs> rows(4);
  RoundInt4Inputs(x.size(), x.data(), rows.data(), 1);
  EXPECT_EQ(rows[0].scale, 0.0f);
  EXPECT_EQ(rows[1].scale, 1.0f / 127.0f);
  EXPECT_TRUE(std::isnan(rows[2].scale));
  EXPECT_TRUE(std::isnan(rows[3].scale));
  for (const int8_t byte : rows[3].x) EXPECT_EQ(byte, 0);
}

// One group of a panel, rounded.
struct Rounded {
  explicit Rounded(const std::vector<float>& values) : left(values) {
    RoundInt4Weights(left.data(), weights, scales);
  }
  // w, as it was understood.
  float Value(size_t k, size_t column) const {
    return FromBf16(scales[column]) *
           static_cast<float>(Stored(weights, k, column) - kInt4Zero);
  }
  std::vector<float> left;
  uint8_t weights[kInt4PanelBytes];
  uint16_t scales[kInt4Panel];
};

TEST_P(Int4Test, WeightsAreRoundedAsOnTheFirstTarget) {
  Numbers numbers(404);
  for (const float size : {1e-20f, 1e-3f, 1.0f, 1e20f}) {
    std::vector<float> values(kInt4Group * kInt4Panel);
    for (float& value : values) value = size * numbers.Uniform(-1.0f, 0.7f);
    const Rounded here(values);
    hwy::SetSupportedTargetsForTest(SimdTargets().back());
    const Rounded there(values);
    hwy::SetSupportedTargetsForTest(GetParam());
    EXPECT_TRUE(std::ranges::equal(here.weights, there.weights));
    EXPECT_TRUE(std::ranges::equal(here.scales, there.scales));
    EXPECT_EQ(here.left, there.left);
  }
}

// Of uniform numbers the largest of 32 is next to 1: 4 bits alone would be off
// by 1 / 8 / sqrt(12) of it, 0.062 of their size.
TEST_P(Int4Test, WeightsAreOffByASixteenthAndLessThanWithoutASearch) {
  Numbers numbers(405);
  double error = 0;
  double size = 0;
  for (int i = 0; i < 50; ++i) {
    std::vector<float> values(kInt4Group * kInt4Panel);
    for (float& value : values) value = numbers.Uniform(-1.0f, 1.0f);
    const Rounded rounded(values);
    for (size_t at = 0; at < values.size(); ++at) {
      const float value = rounded.Value(at / kInt4Panel, at % kInt4Panel);
      EXPECT_NEAR(rounded.left[at], values[at] - value, 1e-7f);
      error += std::pow(static_cast<double>(values[at] - value), 2);
      size += std::pow(static_cast<double>(values[at]), 2);
    }
  }
  EXPECT_LT(std::sqrt(error / size), 0.0605);
  EXPECT_GT(std::sqrt(error / size), 0.05);
}

TEST_P(Int4Test, ColumnsOfZerosAndOfWhatIsNotFinite) {
  Numbers numbers(406);
  std::vector<float> values(kInt4Group * kInt4Panel);
  for (float& value : values) value = numbers.Uniform(-1.0f, 1.0f);
  for (size_t k = 0; k < kInt4Group; ++k) values[k * kInt4Panel + 3] = 0.0f;
  values[7 * kInt4Panel + 4] = std::numeric_limits<float>::infinity();
  values[31 * kInt4Panel + 15] = std::numeric_limits<float>::quiet_NaN();
  const Rounded rounded(values);
  for (size_t j = 0; j < kInt4Panel; ++j) {
    const float scale = FromBf16(rounded.scales[j]);
    EXPECT_EQ(std::isnan(scale), j == 4 || j == 15) << j;
    EXPECT_EQ(scale == 0.0f, j == 3) << j;
  }
  for (size_t k = 0; k < kInt4Group; ++k) {
    for (const size_t j : {3u, 4u, 15u}) {
      EXPECT_EQ(Stored(rounded.weights, k, j), kInt4Zero);
      EXPECT_EQ(rounded.left[k * kInt4Panel + j], 0.0f);
    }
  }
}

}  // namespace
}  // namespace steadystate::int4_product_test
