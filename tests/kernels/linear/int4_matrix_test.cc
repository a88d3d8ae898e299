// Goal: a projection of int4 weights is its formula to the bit for any shape,
// for any number of rows and threads and on every SIMD target; wide columns are
// as good as int8's. Method: the formula, group by group; rows alone and
// together; errors against the unrounded product.

#include "kernels/linear/int4_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/linear/int4_weights.h"
#include "kernels/linear/linear.h"
#include "tests/kernels/numbers.h"

namespace steadystate::int4_matrix_test {
namespace {

struct Shape {
  size_t in;
  size_t out;
};

constexpr Shape kShapes[] = {{1, 1},     {2, 17},    {31, 64}, {32, 16},
                             {33, 33},   {63, 65},   {100, 7}, {255, 130},
                             {256, 512}, {1000, 201}};

float FromBf16(uint16_t bits) {
  float value = 0;
  ConvertToF32({&bits, DType::kBf16}, 0, 1, &value);
  return value;
}

// One column's groups as they are rounded: weights, and their scales.
struct Plane {
  std::vector<int> weights;
  std::vector<float> scales;
};

// Rounds a column, with others around it that are nothing; `left` becomes what
// it lacks.
Plane RoundColumn(std::vector<float>& left) {
  Plane plane;
  left.resize(Int4Groups(left.size()) * kInt4Group);
  for (size_t first = 0; first < left.size(); first += kInt4Group) {
    std::vector<float> values(kInt4Group * kInt4Panel);
    uint8_t bytes[kInt4PanelBytes];
    uint16_t scales[kInt4Panel];
    for (size_t k = 0; k < kInt4Group; ++k) {
      values[k * kInt4Panel] = left[first + k];
    }
    RoundInt4Weights(values.data(), bytes, scales);
    plane.scales.push_back(FromBf16(scales[0]));
    for (size_t k = 0; k < kInt4Group; ++k) {
      left[first + k] = values[k * kInt4Panel];
      const uint8_t both = bytes[k % 16 / 4 * kInt4Panel * 4 + k % 4];
      plane.weights.push_back((k < 16 ? both & 15 : both >> 4) - kInt4Zero);
    }
  }
  return plane;
}

float AddPlane(const Plane& plane, const std::vector<Int4Inputs>& x,
               float sum) {
  for (size_t g = 0; g < x.size(); ++g) {
    int whole = 0;
    for (size_t k = 0; k < kInt4Group; ++k) {
      whole += plane.weights[g * kInt4Group + k] * x[g].x[k];
    }
    const float scaled = static_cast<float>(whole) * x[g].scale;
    volatile float product = scaled * plane.scales[g];
    sum += product;
  }
  return sum;
}

// Column by column, row by row.
Floats Formula(size_t in, const Floats& x, const Floats& weights,
               size_t first_wide) {
  const size_t rows = x.size() / in;
  const size_t out = weights.size() / in;
  Floats y(rows * out);
  for (size_t j = 0; j < out; ++j) {
    std::vector<float> left(weights.data() + j * in,
                            weights.data() + (j + 1) * in);
    std::vector<Plane> planes = {RoundColumn(left)};
    if (j >= first_wide) planes.push_back(RoundColumn(left));
    for (size_t r = 0; r < rows; ++r) {
      std::vector<Int4Inputs> inputs(Int4Groups(in));
      RoundInt4Inputs(in, x.data() + r * in, inputs.data(), 1);
      float sum = 0;
      for (const Plane& plane : planes) sum = AddPlane(plane, inputs, sum);
      y[r * out + j] = sum;
    }
  }
  return y;
}

std::unique_ptr<Int4Matrix> Packed(size_t in, const Floats& weights,
                                   size_t first_wide) {
  WeightArena arena;
  ThreadPool pool(3);
  const size_t out = weights.size() / in;
  std::vector<WeightRows> parts = {{{weights.data(), DType::kF32}, first_wide}};
  if (first_wide < out) {
    parts.push_back({{weights.data() + first_wide * in, DType::kF32},
                     out - first_wide,
                     true});
  }
  if (first_wide == 0) parts.erase(parts.begin());
  return Int4Matrix::Pack(in, parts, arena, pool);
}

Floats Product(const Int4Matrix& matrix, size_t in, size_t out, const Floats& x,
               size_t threads, const float* bias = nullptr) {
  const size_t rows = x.size() / in;
  Floats y(rows * out);
  ThreadPool pool(threads);
  Int4Matrix::Scratch scratch;
  EXPECT_TRUE(
      matrix.Run({rows, x.data(), in, bias, y.data(), out}, pool, scratch));
  return y;
}

TEST(Int4MatrixTest, IsItsFormulaToTheBit) {
  Numbers numbers(411);
  for (const auto& [in, out] : kShapes) {
    for (const size_t first_wide : {out, out / 2}) {
      SCOPED_TRACE(testing::Message()
                   << in << " x " << out << ", wide from " << first_wide);
      const Floats weights = numbers.Uniform(in * out, -1.0f, 1.0f);
      const Floats x = numbers.Uniform(3 * in, -2.0f, 1.0f);
      const auto matrix = Packed(in, weights, first_wide);
      const Floats y = Product(*matrix, in, out, x, 2);
      ASSERT_TRUE(std::ranges::equal(y, Formula(in, x, weights, first_wide)));
    }
  }
}

TEST(Int4MatrixTest, EveryTargetPacksAndMultipliesAlike) {
  Numbers numbers(412);
  constexpr size_t kIn = 100;
  constexpr size_t kOut = 90;
  const Floats weights = numbers.Uniform(kIn * kOut, -1.0f, 1.0f);
  const Floats x = numbers.Uniform(5 * kIn, -1.0f, 1.0f);
  const Floats expected = Product(*Packed(kIn, weights, 70), kIn, kOut, x, 1);
  for (int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    const Floats y = Product(*Packed(kIn, weights, 70), kIn, kOut, x, 1);
    hwy::SetSupportedTargetsForTest(0);
    EXPECT_TRUE(std::ranges::equal(y, expected))
        << hwy::TargetName(left & -left);
  }
}

TEST(Int4MatrixTest, AnyNumberOfRowsIsItsSingles) {
  Numbers numbers(413);
  constexpr size_t kIn = 130;
  constexpr size_t kOut = 200;
  constexpr size_t kMost = 70;
  const auto matrix =
      Packed(kIn, numbers.Uniform(kIn * kOut, -1.0f, 1.0f), 150);
  const Floats bias = numbers.Uniform(kOut, -1.0f, 1.0f);
  const Floats x = numbers.Uniform(kMost * kIn, -1.0f, 1.0f);
  Floats singles(kMost * kOut);
  for (size_t r = 0; r < kMost; ++r) {
    const Floats row(std::span(x.data() + r * kIn, kIn));
    const Floats y = Product(*matrix, kIn, kOut, row, 1, bias.data());
    std::ranges::copy(y, singles.data() + r * kOut);
  }
  for (size_t rows = 1; rows <= kMost; ++rows) {
    const Floats some(std::span(x.data(), rows * kIn));
    for (const size_t threads : {1u, 2u, 3u}) {
      const Floats y = Product(*matrix, kIn, kOut, some, threads, bias.data());
      ASSERT_TRUE(std::equal(y.begin(), y.end(), singles.begin()))
          << rows << " rows, " << threads << " threads";
    }
  }
}

Floats Int8Product(size_t in, const Floats& weights, const Floats& x) {
  const auto factory = *LinearFactory::Create(DType::kI8);
  const size_t out = weights.size() / in;
  const size_t rows = x.size() / in;
  const WeightRows part = {{weights.data(), DType::kF32}, out};
  const auto linear = *factory->Make(in, {&part, 1});
  Floats y(rows * out);
  ThreadPool pool(1);
  LinearScratch scratch;
  linear->Run(rows, x.data(), in, y.data(), out, pool, scratch);
  return y;
}

// The error of y, relative to its size, of weights and inputs that are normal.
double ErrorOf(DType dtype, size_t first_wide) {
  Numbers numbers(414);
  constexpr size_t kIn = 512;
  constexpr size_t kOut = 96;
  constexpr size_t kRows = 8;
  const auto normal = [&](size_t n) {
    Floats values(n);
    for (float& value : values) {
      value = 0;
      for (int i = 0; i < 12; ++i) value += numbers.Uniform(-0.5f, 0.5f);
    }
    return values;
  };
  const Floats weights = normal(kIn * kOut);
  const Floats x = normal(kRows * kIn);
  const Floats y =
      dtype == DType::kI4
          ? Product(*Packed(kIn, weights, first_wide), kIn, kOut, x, 1)
          : Int8Product(kIn, weights, x);
  double error = 0;
  double size = 0;
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t j = 0; j < kOut; ++j) {
      double exact = 0;
      for (size_t i = 0; i < kIn; ++i) {
        exact += static_cast<double>(x[r * kIn + i]) *
                 static_cast<double>(weights[j * kIn + i]);
      }
      error += std::pow(static_cast<double>(y[r * kOut + j]) - exact, 2);
      size += exact * exact;
    }
  }
  return std::sqrt(error / size);
}

TEST(Int4MatrixTest, IsOffByATwelfthAndWideColumnsByLessThanInt8) {
  const double int4 = ErrorOf(DType::kI4, 96);
  const double wide = ErrorOf(DType::kI4, 0);
  const double int8 = ErrorOf(DType::kI8, 0);
  std::printf("errors: int4 %.4f, wide %.4f, int8 %.4f\n", int4, wide, int8);
  EXPECT_LT(int4, 0.085);
  EXPECT_GT(int4, 0.07);
  EXPECT_LT(wide, int8);
}

class LinearInt4Test : public testing::Test {
 protected:
  const std::unique_ptr<LinearFactory> factory_ =
      *LinearFactory::Create(DType::kI4);
  ThreadPool pool_{2};
  LinearScratch scratch_;
};

TEST_F(LinearInt4Test, WhatIsNotFiniteIsNotHidden) {
  constexpr size_t kIn = 50;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Floats weights(3 * kIn);
  for (float& value : weights) value = 0.5f;
  weights[kIn + 40] = std::numeric_limits<float>::quiet_NaN();
  const WeightRows part = {{weights.data(), DType::kF32}, 3};
  const auto linear = *factory_->Make(kIn, {&part, 1});
  Floats x(2 * kIn);
  x[4] = 1.0f;
  x[kIn + 7] = kInfinity;
  Floats y(6);
  linear->Run(2, x.data(), kIn, y.data(), 3, pool_, scratch_);
  EXPECT_NEAR(y[0], 0.5f, 2e-3f);
  EXPECT_TRUE(std::isnan(y[1]));
  EXPECT_NEAR(y[2], 0.5f, 2e-3f);
  for (size_t j = 3; j < 6; ++j) EXPECT_TRUE(std::isnan(y[j])) << j;
}

TEST_F(LinearInt4Test, AProjectionThatIsAllWideIsOneOfInt8Weights) {
  Numbers numbers(415);
  constexpr size_t kIn = 96;
  constexpr size_t kOut = 70;
  const Floats weights = numbers.Uniform(kIn * kOut, -1.0f, 1.0f);
  const Floats x = numbers.Uniform(kIn, -1.0f, 1.0f);
  WeightRows part = {{weights.data(), DType::kF32}, kOut, true};
  Floats y(kOut);
  (*factory_->Make(kIn, {&part, 1}))
      ->Run(1, x.data(), kIn, y.data(), kOut, pool_, scratch_);
  const auto bytes = *LinearFactory::Create(DType::kI8);
  part.wide = false;
  Floats expected(kOut);
  (*bytes->Make(kIn, {&part, 1}))
      ->Run(1, x.data(), kIn, expected.data(), kOut, pool_, scratch_);
  EXPECT_TRUE(std::ranges::equal(y, expected));
}

TEST_F(LinearInt4Test, IsReportedOnceForEachNumberOfInputs) {
  const Floats weights(64 * 40);
  for (const size_t in : {64u, 32u, 64u}) {
    const WeightRows part = {{weights.data(), DType::kF32}, 40};
    ASSERT_TRUE(factory_->Make(in, {&part, 1}).ok());
  }
  const LinearReport& report = factory_->report();
  EXPECT_EQ(report.weight_dtype, "int4");
  ASSERT_EQ(report.shapes.size(), 2u);
  EXPECT_EQ(report.shapes[0].in, 64u);
  EXPECT_EQ(report.shapes[1].in, 32u);
  EXPECT_EQ(report.shapes[0].implementation, "int4_groups");
  EXPECT_EQ(report.shapes[0].decode_tiles, report.shapes[0].prefill_tiles);
}

}  // namespace
}  // namespace steadystate::int4_matrix_test
