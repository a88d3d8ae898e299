// Goal: rows times a panel give the bits that panel_product.h promises, for any
// number of rows, steps and chunks, and touch nothing else. Method: the same
// sums in scalar code, one element at a time.
#include "kernels/linear/panel_product.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/linear/matrix_memory.h"

namespace steadystate::panel_product_test {
namespace {

constexpr unsigned kSeed = 7;
constexpr uint32_t kUntouched = 0x7fc0dead;

float OfBf16(uint32_t bits) {
  const uint32_t word = bits << 16;
  float value;
  std::memcpy(&value, &word, sizeof(value));
  return value;
}

// sum + the products of the numbers in four bytes of x and of w.
float Step(DType dtype, float sum, uint32_t x, uint32_t w) {
  if (dtype == DType::kF32) {
    float a;
    float b;
    std::memcpy(&a, &x, sizeof(a));
    std::memcpy(&b, &w, sizeof(b));
    return std::fma(a, b, sum);
  }
  sum = std::fma(OfBf16(x >> 16), OfBf16(w >> 16), sum);
  return std::fma(OfBf16(x & 0xffff), OfBf16(w & 0xffff), sum);
}

int32_t Step(int32_t sum, uint32_t x, uint32_t w) {
  for (int byte = 0; byte < 4; ++byte) {
    const auto a = static_cast<uint8_t>(x >> (8 * byte));
    const auto b = static_cast<int8_t>(w >> (8 * byte));
    sum += int32_t{a} * int32_t{b};
  }
  return sum;
}

// Which of the loops that there are for a type of weights.
struct Order {
  const char* name;
  DType dtype;
  bool amx;
  size_t index;            // of those with or without AMX
  size_t block_steps = 0;  // added up by themselves, or 0
};

MultiplyPanel Find(const Order& order) {
  size_t index = 0;
  for (const PanelLoop& loop : FindPanelLoops(order.dtype)) {
    if (loop.amx == order.amx && index++ == order.index) return loop.multiply;
  }
  return nullptr;
}

class PanelProductTest : public testing::TestWithParam<Order> {
 protected:
  PanelProductTest() : multiply_(Find(GetParam())) {
    if (multiply_ == nullptr) return;
    EXPECT_TRUE(panel_.Allocate(kMaxSteps * kPanelColumns * 4));
    EXPECT_TRUE(sums_.Allocate((kMaxPanelRows + 1) * kPanelColumns * 4));
    EXPECT_TRUE(partial_.Allocate(kMaxPanelRows * kPanelColumns * 4));
    std::mt19937 random(kSeed);
    for (uint32_t& word : x_) word = Word(random);
    for (size_t i = 0; i < kMaxSteps * kPanelColumns; ++i) {
      const uint32_t word = Word(random);
      std::memcpy(panel_.data() + 4 * i, &word, 4);
    }
  }

  void SetUp() override {
    if (multiply_ == nullptr) {
      GTEST_SKIP() << "this CPU has no such instructions";
    }
  }

  static constexpr size_t kMaxSteps = 1030;
  static constexpr size_t kStride = kMaxSteps + 3;  // of x, in words

  // Numbers of magnitude 1/8 to 1, in four bytes.
  static uint32_t Word(std::mt19937& random) {
    const auto bits = static_cast<uint32_t>(random());
    if (GetParam().dtype == DType::kI8) return bits;
    const uint32_t halves = 0x3e003e00 + (bits & 0x817f817f);
    return GetParam().dtype == DType::kBf16
               ? halves
               : (halves & 0xffff0000) | (bits >> 16);
  }

  void Multiply(size_t rows, size_t steps, size_t chunk) {
    for (size_t i = 0; i < (kMaxPanelRows + 1) * kPanelColumns; ++i) {
      std::memcpy(sums_.data() + 4 * i, &kUntouched, 4);
    }
    multiply_({.rows = rows,
               .steps = steps,
               .chunk = chunk,
               .x = reinterpret_cast<const std::byte*>(x_.data()),
               .x_stride = kStride * 4,
               .panel = panel_.data(),
               .end = panel_.data() + steps * kPanelColumns * 4,
               .next = panel_.data(),
               .sums = sums_.data(),
               .partial = partial_.data()});
  }

  uint32_t Sum(size_t row, size_t column) const {
    uint32_t bits;
    std::memcpy(&bits, sums_.data() + 4 * (row * kPanelColumns + column), 4);
    return bits;
  }

  uint32_t Weight(size_t step, size_t column) const {
    uint32_t word;
    std::memcpy(&word, panel_.data() + 4 * (step * kPanelColumns + column), 4);
    return word;
  }

  // Steps [begin, end) of a row and a column, one after the other.
  float ChainOf(const uint32_t* x, size_t column, size_t begin,
                size_t end) const {
    float sum = 0;
    for (size_t k = begin; k < end; ++k) {
      sum = Step(GetParam().dtype, sum, x[k], Weight(k, column));
    }
    return sum;
  }

  // The same by blocks, of which the first numbers of all pairs are added up by
  // themselves, and the second.
  float BlocksOf(const uint32_t* x, size_t column, size_t begin,
                 size_t end) const {
    float sum = 0;
    for (size_t k = begin; k < end;) {
      const size_t block_end = std::min(k + GetParam().block_steps, end);
      float first = 0;
      float second = 0;
      for (; k < block_end; ++k) {
        const uint32_t w = Weight(k, column);
        first = std::fma(OfBf16(x[k] & 0xffff), OfBf16(w & 0xffff), first);
        second = std::fma(OfBf16(x[k] >> 16), OfBf16(w >> 16), second);
      }
      sum += first + second;
    }
    return sum;
  }

  uint32_t Expected(size_t row, size_t column, size_t steps,
                    size_t chunk) const {
    const uint32_t* x = x_.data() + row * kStride;
    uint32_t bits;
    if (GetParam().dtype == DType::kI8) {
      int32_t sum = 0;
      for (size_t k = 0; k < steps; ++k) {
        sum = Step(sum, x[k], Weight(k, column));
      }
      std::memcpy(&bits, &sum, 4);
      return bits;
    }
    float total = 0;
    for (size_t begin = 0; begin < steps; begin += chunk) {
      const size_t end = std::min(steps, begin + chunk);
      const float sum = GetParam().block_steps > 0
                            ? BlocksOf(x, column, begin, end)
                            : ChainOf(x, column, begin, end);
      total = begin == 0 ? sum : total + sum;
    }
    std::memcpy(&bits, &total, 4);
    return bits;
  }

  void Check(size_t rows, size_t steps, size_t chunk) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << steps
                                    << " steps in chunks of " << chunk);
    Multiply(rows, steps, chunk);
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < kPanelColumns; column += 7) {
        ASSERT_EQ(Sum(row, column), Expected(row, column, steps, chunk))
            << "row " << row << ", column " << column;
      }
    }
    for (size_t row = rows; row <= kMaxPanelRows; ++row) {
      for (size_t column = 0; column < kPanelColumns; ++column) {
        ASSERT_EQ(Sum(row, column), kUntouched);
      }
    }
  }

  const MultiplyPanel multiply_;
  std::vector<uint32_t> x_ = std::vector<uint32_t>(kMaxPanelRows * kStride);
  AlignedBytes panel_;
  AlignedBytes sums_;
  AlignedBytes partial_;
};

TEST_P(PanelProductTest, HasTheBitsOfItsFormulaForAnyNumberOfRows) {
  for (size_t rows = 1; rows <= kMaxPanelRows; rows += rows < 35 ? 1 : 10) {
    Check(rows, 520, kPanelSlab);
  }
  Check(kMaxPanelRows, 520, kPanelSlab);
}

TEST_P(PanelProductTest, HasTheBitsOfItsFormulaForAnyChunksAndSteps) {
  for (const size_t steps :
       {size_t{1}, size_t{17}, kPanelSlab - 1, kPanelSlab, kPanelSlab + 1,
        2 * kPanelSlab, 3 * kPanelSlab + 5, kMaxSteps}) {
    for (const size_t chunk : {kPanelSlab, 2 * kPanelSlab, 64 * kPanelSlab}) {
      Check(3, steps, chunk);
      Check(14, steps, chunk);
      Check(32, steps, chunk);
      Check(49, steps, chunk);
    }
  }
}

TEST_P(PanelProductTest, TakesDenormalNumbersForZeroWhereTheTypeIsBf16) {
  if (GetParam().dtype != DType::kBf16) GTEST_SKIP() << "another type";
  const std::vector<uint32_t> before = x_;
  for (const uint32_t denormal : {uint32_t{0x007f007f}, uint32_t{0x80018001}}) {
    x_ = before;
    std::fill_n(x_.begin(), kStride, denormal);
    Multiply(2, 48, kPanelSlab);
    for (size_t column = 0; column < kPanelColumns; ++column) {
      ASSERT_EQ(Sum(0, column) & 0x7fffffff, 0u) << "column " << column;
      ASSERT_EQ(Sum(1, column), Expected(1, column, 48, kPanelSlab));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Orders, PanelProductTest,
    testing::Values(Order{"f32", DType::kF32, false, 0},
                    Order{"bf16", DType::kBf16, false, 0},
                    Order{"bf16_blocks", DType::kBf16, false, 1, 16},
                    Order{"bf16_amx", DType::kBf16, true, 0, 16},
                    Order{"int8", DType::kI8, false, 0},
                    Order{"int8_amx", DType::kI8, true, 0}),
    [](const auto& order) { return std::string(order.param.name); });

}  // namespace
}  // namespace steadystate::panel_product_test
