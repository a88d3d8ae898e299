// Goal: a projection by plain vectors is the product, of numbers as the type of
// the weights has them, for any shape and stride; a row's bits do not depend on
// the others nor on threads; what is not finite stays so. Method: double sums;
// rows alone and together.

#include "kernels/linear/simd_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/linear/simd_product.h"
#include "tests/kernels/numbers.h"

namespace steadystate::simd_matrix_test {
namespace {

constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kI8};

struct Shape {
  size_t in;
  size_t out;
};

constexpr Shape kShapes[] = {{1, 1},     {2, 17},     {33, 64},
                             {64, 65},   {101, 7},    {255, 130},
                             {256, 512}, {1000, 201}, {2049, 47}};

std::unique_ptr<SimdMatrix> Packed(DType type, size_t in,
                                   const Floats& weights) {
  WeightArena arena;
  ThreadPool pool(3);
  // Two parts, so that a block has rows of both.
  const size_t out = weights.size() / in;
  std::vector<WeightRows> parts = {{{weights.data(), DType::kF32}, 1}};
  if (out > 1) {
    parts.push_back({{weights.data() + in, DType::kF32}, out - 1});
  }
  auto matrix = SimdMatrix::Pack(type, in, parts, arena, pool);
  EXPECT_NE(matrix, nullptr);
  return matrix;
}

Floats Product(const SimdMatrix& matrix, size_t in, size_t out, const Floats& x,
               size_t threads, const Floats* bias = nullptr) {
  ThreadPool pool(threads);
  SimdMatrix::Scratch scratch;
  const size_t rows = x.size() / in;
  Floats y(rows * out);
  EXPECT_TRUE(
      matrix.Run({rows, x.data(), in, bias == nullptr ? nullptr : bias->data(),
                  y.data(), out},
                 pool, scratch));
  return y;
}

// What rounding to bytes, of which `limit` is the largest, may change a number
// of a row by.
double HalfStep(DType type, size_t in, const float* row, double limit) {
  if (type != DType::kI8) return 0;
  double largest = 0;
  for (size_t k = 0; k < in; ++k) {
    largest = std::max(largest, std::abs(static_cast<double>(row[k])));
  }
  return 0.5 * largest / limit;
}

double Rounded(DType type, float value) {
  if (type == DType::kBf16) {
    uint16_t bits = 0;
    ConvertToBf16(1, &value, &bits);
    ConvertToF32({&bits, type}, 0, 1, &value);
  }
  return static_cast<double>(value);
}

TEST(SimdMatrixTest, IsNearTheDoubleSums) {
  const uint64_t seed = 441;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kRows = 3;
  for (const DType type : kTypes) {
    for (const auto& [in, out] : kShapes) {
      SCOPED_TRACE(testing::Message()
                   << Name(type) << " " << in << " x " << out);
      const Floats weights = numbers.Uniform(in * out, -1.0f, 1.0f);
      const Floats bias = numbers.Uniform(out, -1.0f, 1.0f);
      const Floats x = numbers.Uniform(kRows * in, -1.0f, 1.0f);
      const Floats y =
          Product(*Packed(type, in, weights), in, out, x, 2, &bias);
      for (size_t i = 0; i < y.size(); ++i) {
        const float* const row = x.data() + i / out * in;
        const float* const column = weights.data() + i % out * in;
        const double row_step = HalfStep(type, in, row, 127.0);
        const double column_step = HalfStep(type, in, column, 127.0);
        double exact = static_cast<double>(bias[i % out]);
        double allowed = 1e-6;
        for (size_t k = 0; k < in; ++k) {
          const auto a = Rounded(type, row[k]);
          const auto b = Rounded(type, column[k]);
          exact += a * b;
          allowed += 1e-6 * std::abs(a * b) + row_step * column_step;
          allowed += row_step * std::abs(b) + column_step * std::abs(a);
        }
        ASSERT_NEAR(static_cast<double>(y[i]), exact, allowed) << i;
      }
    }
  }
}

TEST(SimdMatrixTest, RowsDoNotDependOnTheCallNorOnThreads) {
  const uint64_t seed = 442;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kMost = 2 * kSimdBlockRows + 9;
  for (const DType type : kTypes) {
    for (const auto& [in, out] : {Shape{65, 70}, Shape{300, 129}}) {
      const Floats weights = numbers.Uniform(in * out, -1.0f, 1.0f);
      Floats all = numbers.Uniform(kMost * in, -1.0f, 1.0f);
      for (float& value : all) {
        value = std::ldexp(value, static_cast<int>(numbers.Below(24)) - 12);
      }
      const auto matrix = Packed(type, in, weights);
      const Floats together = Product(*matrix, in, out, all, 1);
      for (const size_t rows : {1u, 2u, 7u, 40u, 128u, 129u, 265u}) {
        for (const size_t threads : {1u, 2u, 3u}) {
          const size_t first = numbers.Below(kMost - rows + 1);
          const Floats x(
              std::span<const float>(all.data() + first * in, rows * in));
          const Floats y = Product(*matrix, in, out, x, threads);
          ASSERT_EQ(0, std::memcmp(y.data(), together.data() + first * out,
                                   y.size() * sizeof(float)))
              << Name(type) << ", " << rows << " rows from " << first << ", "
              << threads << " threads";
        }
      }
    }
  }
}

TEST(SimdMatrixTest, StridesReachNoOtherElement) {
  const uint64_t seed = 443;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kIn = 37;
  constexpr size_t kOut = 70;
  constexpr float kUntouched = 7.0f;
  for (const DType type : kTypes) {
    const auto matrix =
        Packed(type, kIn, numbers.Uniform(kIn * kOut, -1.0f, 1.0f));
    const Floats x = numbers.Uniform(5 * kIn, -1.0f, 1.0f);
    const Floats expected = Product(*matrix, kIn, kOut, x, 1);
    Floats wide_x(4 * 41 + kIn);
    for (float& value : wide_x) value = std::nanf("");
    for (size_t r = 0; r < 5; ++r) {
      std::memcpy(wide_x.data() + r * 41, x.data() + r * kIn,
                  kIn * sizeof(float));
    }
    Floats wide_y(4 * 75 + kOut);
    for (float& value : wide_y) value = kUntouched;
    ThreadPool pool(2);
    SimdMatrix::Scratch scratch;
    ASSERT_TRUE(matrix->Run({5, wide_x.data(), 41, nullptr, wide_y.data(), 75},
                            pool, scratch));
    for (size_t i = 0; i < wide_y.size(); ++i) {
      const size_t j = i % 75;
      ASSERT_EQ(wide_y[i], j < kOut ? expected[i / 75 * kOut + j] : kUntouched);
    }
  }
}

TEST(SimdMatrixTest, WhatIsNotFiniteStaysSoAndInItsRow) {
  constexpr size_t kIn = 51;
  constexpr size_t kOut = 20;
  Numbers numbers(444);
  for (const DType type : kTypes) {
    const auto matrix =
        Packed(type, kIn, numbers.Uniform(kIn * kOut, 0.5f, 1.0f));
    Floats x = numbers.Uniform(3 * kIn, -1.0f, 1.0f);
    x[kIn - 1] = std::numeric_limits<float>::infinity();
    x[2 * kIn] = std::nanf("");
    const Floats y = Product(*matrix, kIn, kOut, x, 1);
    for (size_t j = 0; j < kOut; ++j) {
      EXPECT_FALSE(std::isfinite(y[j])) << Name(type);
      EXPECT_TRUE(std::isfinite(y[kOut + j])) << Name(type);
      EXPECT_TRUE(std::isnan(y[2 * kOut + j])) << Name(type);
    }
  }
}

TEST(SimdMatrixTest, WeightsTakeTheirBytesAndNoMore) {
  const Floats weights(512 * 128);
  EXPECT_EQ(Packed(DType::kF32, 512, weights)->bytes(), 512u * 128 * 4);
  EXPECT_EQ(Packed(DType::kBf16, 512, weights)->bytes(), 512u * 128 * 2);
  EXPECT_EQ(Packed(DType::kI8, 512, weights)->bytes(), 512u * 128);
}

}  // namespace
}  // namespace steadystate::simd_matrix_test
