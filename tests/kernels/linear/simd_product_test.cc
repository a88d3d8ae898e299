// Goal: the product of plain vectors is its formula to the bit, on every SIMD
// target, for any number of rows, which do not see each other. Method: the
// formula, one rounding after the other; magnitudes so far apart that sums in
// another order have other bits; bytes whose sums are as large as can be; rows
// and blocks that end where memory does.

#include "kernels/linear/simd_product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/dtype.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/split_signs.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/simd_targets.h"

namespace steadystate::simd_product_test {
namespace {

class SimdTest : public testing::TestWithParam<int64_t> {
 protected:
  SimdTest() { hwy::SetSupportedTargetsForTest(GetParam()); }
  ~SimdTest() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, SimdTest, testing::ValuesIn(SimdTargets()),
                         [](const auto& instance) {
                           return std::string(hwy::TargetName(instance.param));
                         });

constexpr DType kTypes[] = {DType::kF32, DType::kBf16};
constexpr float kUntouched = 77.0f;

float Spread(Numbers& numbers) {
  const int exponent = static_cast<int>(numbers.Below(24)) - 12;
  const float value = std::ldexp(numbers.Uniform(1.0f, 2.0f), exponent);
  return numbers.Below(2) == 0 ? value : -value;
}

// Rows and a block. The last element of either is the last that can be read.
struct Case {
  Case(DType dtype, size_t inputs, size_t columns, size_t row_count,
       Numbers& numbers)
      : type(dtype),
        in(inputs),
        width(columns),
        rows(row_count),
        x(rows * in),
        block(SimdInputs(type, in) * SimdPanels(width) * kSimdPanel *
              SizeOf(type) / sizeof(float)) {
    for (float& value : x) value = Spread(numbers);
    for (size_t i = 0; i < width * in; ++i) weights.push_back(Spread(numbers));
    if (type == DType::kF32) {
      PackSimdBlock(type, in, width, weights.data(), Block());
      return;
    }
    std::vector<uint16_t> halves(weights.size());
    ConvertToBf16(halves.size(), weights.data(), halves.data());
    ConvertToF32({halves.data(), type}, 0, halves.size(), weights.data());
    PackSimdBlock(type, in, width, halves.data(), Block());
  }

  std::byte* Block() { return reinterpret_cast<std::byte*>(block.data()); }

  // Rows [first, first + count). What is not written is kUntouched.
  std::vector<float> Run(size_t first, size_t count) {
    std::vector<float> sums(count * kSimdBlockColumns, kUntouched);
    std::vector<float> scratch(kSimdScratch);
    MultiplySimd({type, count, in, SimdPanels(width), x.data() + first * in, in,
                  nullptr, Block(), sums.data(), scratch.data()});
    return sums;
  }

  // The bits of a sum.
  float Formula(size_t r, size_t j, bool fused) const {
    const float* const a = x.data() + r * in;
    const float* const b = weights.data() + j * in;
    float total = 0;
    for (size_t slab = 0; slab < in; slab += SimdSlab(type)) {
      float sum = 0;
      for (size_t k = slab; k < std::min(in, slab + SimdSlab(type)); ++k) {
        volatile float product = a[k] * b[k];
        sum = fused ? std::fma(a[k], b[k], sum) : sum + product;
      }
      total = slab == 0 ? sum : total + sum;
    }
    return total;
  }

  DType type;
  size_t in;
  size_t width;
  size_t rows;
  std::vector<float> weights;  // [width, in]
  Floats x;                    // [rows, in]
  Floats block;
};

TEST_P(SimdTest, IsItsFormulaToTheBit) {
  const uint64_t seed = 431;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  const bool fused = GetParam() <= HWY_AVX2;
  for (const DType type : kTypes) {
    for (const size_t in : {1u, 2u, 7u, 255u, 256u, 257u, 600u}) {
      for (const size_t width : {1u, 16u, 17u, 40u, 64u}) {
        const size_t rows = 1 + numbers.Below(30);
        SCOPED_TRACE(testing::Message() << Name(type) << " " << in << " x "
                                        << width << ", rows " << rows);
        Case example(type, in, width, rows, numbers);
        const std::vector<float> sums = example.Run(0, rows);
        const size_t columns = SimdPanels(width) * kSimdPanel;
        for (size_t i = 0; i < sums.size(); ++i) {
          const size_t r = i / kSimdBlockColumns;
          const size_t j = i % kSimdBlockColumns;
          if (j < width) {
            ASSERT_TRUE(SameBits(sums[i], example.Formula(r, j, fused)))
                << "row " << r << " column " << j;
          } else if (j >= columns) {
            ASSERT_EQ(sums[i], kUntouched);
          }
        }
      }
    }
  }
}

TEST_P(SimdTest, EveryNumberOfRowsGivesEachItsBits) {
  const uint64_t seed = 432;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const DType type : kTypes) {
    Case example(type, 300, 57, kSimdBlockRows, numbers);
    std::vector<float> alone;
    for (size_t r = 0; r < kSimdBlockRows; ++r) {
      const std::vector<float> row = example.Run(r, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (size_t rows = 1; rows <= kSimdBlockRows; rows += rows < 40 ? 1 : 11) {
      const size_t first = numbers.Below(kSimdBlockRows - rows + 1);
      const std::vector<float> sums = example.Run(first, rows);
      ASSERT_EQ(
          0, std::memcmp(sums.data(), alone.data() + first * kSimdBlockColumns,
                         sums.size() * sizeof(float)))
          << Name(type) << ", rows " << rows << " from " << first;
    }
  }
}

// The same of whole numbers. Every fourth row and column is as large as can be,
// so that pairs and sums are, too, of either sign.
struct ByteCase {
  ByteCase(size_t inputs, size_t columns, size_t row_count, Numbers& numbers)
      : in(inputs),
        width(columns),
        rows(row_count),
        row_bytes(2 * SimdInputs(DType::kI8, in)),
        x(rows * in),
        split(rows * row_bytes),
        weights(width * in),
        block(SimdInputs(DType::kI8, in) * SimdPanels(width) * kSimdPanel) {
    // Of row or column i.
    const auto byte = [&numbers](size_t i) {
      constexpr int kLargest = 127;
      const int any = static_cast<int>(numbers.Below(2 * kLargest + 1));
      const int largest = i % 8 == 0 ? kLargest : -kLargest;
      return static_cast<int8_t>(i % 4 == 0 ? largest : any - kLargest);
    };
    for (size_t i = 0; i < x.size(); ++i) x[i] = byte(i / in);
    for (size_t r = 0; r < rows; ++r) Split(r);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = byte(i / in);
    PackSimdBlock(DType::kI8, in, width, weights.data(), block.data());
  }

  void Split(size_t r) {
    std::vector<uint8_t> bytes(RoundUpToLine(in));
    std::memcpy(bytes.data(), x.data() + r * in, in);
    std::vector<uint8_t> whole(2 * bytes.size());
    starts.push_back(SplitSigns(bytes.size(), bytes.data(), whole.data()));
    std::memcpy(split.data() + r * row_bytes, whole.data(), row_bytes);
  }

  std::vector<int32_t> Run(size_t first, size_t count) {
    std::vector<int32_t> sums(count * kSimdBlockColumns, -1);
    MultiplySimd({DType::kI8, count, in, SimdPanels(width),
                  split.data() + first * row_bytes, row_bytes,
                  starts.data() + first, block.data(), sums.data(), nullptr});
    return sums;
  }

  int32_t Sum(size_t r, size_t j) const {
    int32_t sum = 0;
    for (size_t k = 0; k < in; ++k) {
      sum += int32_t{x[r * in + k]} * int32_t{weights[j * in + k]};
    }
    return sum;
  }

  size_t in;
  size_t width;
  size_t rows;
  size_t row_bytes;             // of `split`
  std::vector<int8_t> x;        // [rows, in]
  std::vector<uint8_t> split;   // [rows, row_bytes]
  std::vector<int32_t> starts;  // [rows]
  std::vector<int8_t> weights;  // [width, in]
  std::vector<std::byte> block;
};

TEST_P(SimdTest, SumsOfBytesAreExact) {
  const uint64_t seed = 433;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t in : {1u, 2u, 3u, 7u, 1023u, 1024u, 1026u, 2600u}) {
    for (const size_t width : {1u, 16u, 17u, 40u, 64u}) {
      const size_t rows = 1 + numbers.Below(30);
      ByteCase example(in, width, rows, numbers);
      const std::vector<int32_t> sums = example.Run(0, rows);
      for (size_t i = 0; i < sums.size(); ++i) {
        const size_t r = i / kSimdBlockColumns;
        const size_t j = i % kSimdBlockColumns;
        if (j < width) {
          ASSERT_EQ(sums[i], example.Sum(r, j))
              << in << " x " << width << ", row " << r << " of " << rows
              << ", column " << j;
        } else if (j >= SimdPanels(width) * kSimdPanel) {
          ASSERT_EQ(sums[i], -1);
        }
      }
    }
  }
}

TEST_P(SimdTest, SumsOfBytesAreExactForEveryNumberOfRows) {
  const uint64_t seed = 434;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  ByteCase example(205, 57, kSimdBlockRows, numbers);
  for (size_t rows = 1; rows <= kSimdBlockRows; rows += rows < 40 ? 1 : 11) {
    const size_t first = numbers.Below(kSimdBlockRows - rows + 1);
    const std::vector<int32_t> sums = example.Run(first, rows);
    for (size_t i = 0; i < rows * example.width; ++i) {
      const size_t r = i / example.width;
      const size_t j = i % example.width;
      ASSERT_EQ(sums[r * kSimdBlockColumns + j], example.Sum(first + r, j))
          << "row " << r << " of " << rows << ", column " << j;
    }
  }
}

TEST(SimdPackTest, PanelsLieSlabBySlab) {
  // Two slabs, the last of an odd number of inputs, and two panels.
  constexpr size_t kIn = SimdSlab(DType::kBf16) + 3;
  constexpr size_t kWidth = kSimdPanel + 2;
  std::vector<uint16_t> rows(kWidth * kIn);
  std::iota(rows.begin(), rows.end(), uint16_t{1});
  const size_t inputs = SimdInputs(DType::kBf16, kIn);
  ASSERT_EQ(inputs, kIn + 1);
  std::vector<uint16_t> block(inputs * 2 * kSimdPanel, 0xFFFF);
  PackSimdBlock(DType::kBf16, kIn, kWidth, rows.data(),
                reinterpret_cast<std::byte*>(block.data()));
  size_t at = 0;
  for (size_t slab = 0; slab < inputs; slab += SimdSlab(DType::kBf16)) {
    const size_t end = std::min(inputs, slab + SimdSlab(DType::kBf16));
    for (size_t panel = 0; panel < 2; ++panel) {
      for (size_t k = slab; k < end; k += 2) {
        for (size_t j = panel * kSimdPanel; j < (panel + 1) * kSimdPanel; ++j) {
          for (size_t i = k; i < k + 2; ++i, ++at) {
            const bool is = j < kWidth && i < kIn;
            ASSERT_EQ(block[at], is ? rows[j * kIn + i] : 0)
                << "column " << j << " input " << i;
          }
        }
      }
    }
  }
  EXPECT_EQ(at, block.size());
}

}  // namespace
}  // namespace steadystate::simd_product_test
