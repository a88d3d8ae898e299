// Goal: the product of plain vectors is its formula to the bit, on every SIMD
// target, for any number of rows, which do not see each other. Method: the
// formula, one rounding after the other; magnitudes so far apart that sums in
// another order have other bits; blocks that end where memory does.

#include "kernels/linear/simd_product.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/linear/matrix_memory.h"
#include "tests/kernels/numbers.h"

namespace steadystate::simd_product_test {
namespace {

std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    targets.push_back(left & -left);
  }
  return targets;
}

class SimdTest : public testing::TestWithParam<int64_t> {
 protected:
  SimdTest() { hwy::SetSupportedTargetsForTest(GetParam()); }
  ~SimdTest() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, SimdTest, testing::ValuesIn(Targets()),
                         [](const auto& instance) {
                           return std::string(hwy::TargetName(instance.param));
                         });

constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kI8};
constexpr float kUntouched = 77.0f;

// Rows and a block, with numbers that an integer type holds, too.
struct Case {
  Case(DType dtype, size_t inputs, size_t columns, size_t row_count,
       Numbers& numbers)
      : type(dtype),
        in(inputs),
        width(columns),
        rows(row_count),
        stride(Inputs() * (type == DType::kI8 ? 2 : 4)),
        block_floats(
            FloatsOf(Inputs() * SimdPanels(width) * kSimdPanel * SizeOf(type))),
        row_floats(FloatsOf(rows * stride)) {
    for (size_t i = 0; i < width * in; ++i) weights.push_back(Weight(numbers));
    for (size_t i = 0; i < rows * in; ++i) x.push_back(Input(numbers));
    Pack();
    PlaceRows();
  }

  float Spread(Numbers& numbers) const {
    const int exponent = static_cast<int>(numbers.Below(24)) - 12;
    const float value = std::ldexp(numbers.Uniform(1.0f, 2.0f), exponent);
    return numbers.Below(2) == 0 ? value : -value;
  }
  float Weight(Numbers& numbers) const {
    if (type == DType::kI8) return static_cast<float>(numbers.Below(255)) - 127;
    float value = Spread(numbers);
    if (type == DType::kF32) return value;
    uint16_t bits = 0;
    ConvertToBf16(1, &value, &bits);
    ConvertToF32({&bits, DType::kBf16}, 0, 1, &value);
    return value;
  }
  float Input(Numbers& numbers) const {
    if (type != DType::kI8) return Spread(numbers);
    // Mostly of the largest, so that sums are.
    if (numbers.Below(3) != 0) return numbers.Below(2) == 0 ? 127.0f : -127.0f;
    return static_cast<float>(numbers.Below(255)) - 127;
  }

  size_t Inputs() const { return SimdInputs(type, in); }

  void Pack() {
    std::vector<std::byte> typed(weights.size() * SizeOf(type));
    for (size_t i = 0; i < weights.size(); ++i) {
      if (type == DType::kF32) {
        std::memcpy(typed.data() + 4 * i, &weights[i], 4);
      } else if (type == DType::kBf16) {
        uint16_t bits = 0;
        ConvertToBf16(1, &weights[i], &bits);
        std::memcpy(typed.data() + 2 * i, &bits, 2);
      } else {
        typed[i] = static_cast<std::byte>(static_cast<int8_t>(weights[i]));
      }
    }
    PackSimdBlock(type, in, width, typed.data(), Block());
  }

  static size_t FloatsOf(size_t bytes) { return (bytes + 3) / 4; }

  // Its last byte is the last that can be read, for it has a multiple of 16
  // elements.
  std::byte* Block() {
    return reinterpret_cast<std::byte*>(block_floats.data());
  }

  void PlaceRows() {
    const size_t element = type == DType::kI8 ? 2 : 4;
    auto* const to = reinterpret_cast<std::byte*>(row_floats.data());
    std::memset(to, 0, rows * stride);
    for (size_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < in; ++i) {
        const float value = x[r * in + i];
        const auto whole = static_cast<int16_t>(type == DType::kI8 ? value : 0);
        const void* const from =
            type == DType::kI8 ? static_cast<const void*>(&whole) : &value;
        std::memcpy(to + r * stride + i * element, from, element);
      }
    }
  }

  // Rows [first, first + count). What is not written is kUntouched.
  std::vector<float> Run(size_t first, size_t count) {
    std::vector<float> sums(count * kSimdBlockColumns, kUntouched);
    AlignedBytes scratch;
    EXPECT_TRUE(scratch.Allocate(kSimdScratchBytes));
    SimdProduct product{};
    product.weights = type;
    product.rows = count;
    product.in = Inputs();
    product.panels = SimdPanels(width);
    product.x =
        reinterpret_cast<const std::byte*>(row_floats.data()) + first * stride;
    product.x_stride = stride;
    product.block = Block();
    product.sums = reinterpret_cast<std::byte*>(sums.data());
    product.scratch = scratch.data();
    MultiplySimd(product);
    return sums;
  }

  // The bits of a sum.
  float Formula(size_t r, size_t j, bool fused) const {
    const float* const a = x.data() + r * in;
    const float* const b = weights.data() + j * in;
    if (type == DType::kI8) {
      int32_t sum = 0;
      for (size_t k = 0; k < in; ++k) {
        sum += static_cast<int32_t>(a[k]) * static_cast<int32_t>(b[k]);
      }
      return std::bit_cast<float>(sum);
    }
    float total = 0;
    for (size_t slab = 0; slab < in; slab += kSimdSlab) {
      float sum = 0;
      for (size_t k = slab; k < std::min(in, slab + kSimdSlab); ++k) {
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
  size_t stride;               // bytes
  std::vector<float> weights;  // [width, in]
  std::vector<float> x;        // [rows, in]
  Floats block_floats;
  Floats row_floats;
};

bool Same(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

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
            ASSERT_TRUE(Same(sums[i], example.Formula(r, j, fused)))
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

TEST(SimdPackTest, PanelsLieSlabBySlab) {
  // Two slabs, the last of an odd number of inputs, and two panels.
  constexpr size_t kIn = kSimdSlab + 3;
  constexpr size_t kWidth = kSimdPanel + 2;
  std::vector<int8_t> rows(kWidth * kIn);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int8_t>(1 + i % 113);
  }
  const size_t inputs = SimdInputs(DType::kI8, kIn);
  ASSERT_EQ(inputs, kIn + 1);
  std::vector<int8_t> block(inputs * 2 * kSimdPanel, -1);
  PackSimdBlock(DType::kI8, kIn, kWidth, rows.data(),
                reinterpret_cast<std::byte*>(block.data()));
  size_t at = 0;
  for (size_t slab = 0; slab < inputs; slab += kSimdSlab) {
    const size_t end = std::min(inputs, slab + kSimdSlab);
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
