// Projections against double sums, and the promise that a row's bits depend on
// that row alone. Registered twice in ctest: with the CPU's own instructions
// and with ONEDNN_MAX_CPU_ISA=AVX2.

#include "kernels/linear/linear.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::linear_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool HeldToAvx2() {
  const char* isa = std::getenv("ONEDNN_MAX_CPU_ISA");
  return isa != nullptr && std::string_view(isa) == "AVX2";
}

// int8 and int4 have formulas and tests of their own.
constexpr DType kFloats[] = {DType::kF32, DType::kBf16};
constexpr DType kTypes[] = {DType::kF32, DType::kBf16, DType::kI8, DType::kI4};

constexpr RowClass kRowClasses[] = {RowClass::kDecode, RowClass::kPrefill};

std::unique_ptr<LinearFactory> MakeFactory(DType dtype, size_t threads = 3) {
  auto factory = LinearFactory::Create(dtype, threads);
  EXPECT_TRUE(factory.ok()) << factory.status();
  return *std::move(factory);
}

std::unique_ptr<Linear> MakeLinear(LinearFactory& factory, size_t in,
                                   const Floats& weights,
                                   std::span<const float> bias = {}) {
  const WeightRows part = {{weights.data(), DType::kF32}, weights.size() / in};
  auto linear = factory.Make(in, {&part, 1}, bias);
  EXPECT_TRUE(linear.ok()) << linear.status();
  return *std::move(linear);
}

float Rounded(DType dtype, float value) {
  if (dtype == DType::kF32) return value;
  uint16_t bits = 0;
  ConvertToBf16(1, &value, &bits);
  float result = 0;
  ConvertToF32({&bits, DType::kBf16}, 0, 1, &result);
  return result;
}

struct Shape {
  size_t in;
  size_t out;
};

constexpr Shape kShapes[] = {{1, 1},     {2, 17},    {3, 64},     {16, 1},
                             {17, 33},   {63, 65},   {64, 16},    {100, 7},
                             {255, 130}, {256, 512}, {1000, 201}, {2049, 47},
                             {4096, 65}, {5632, 130}};

TEST(LinearTest, MatchesDoubleSumsWithAndWithoutBias) {
  const uint64_t seed = 81;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  ThreadPool pool(2);
  LinearScratch scratch;
  constexpr size_t kRows = 3;
  for (const DType dtype : kFloats) {
    const auto factory = MakeFactory(dtype);
    for (const auto& [in, out] : kShapes) {
      SCOPED_TRACE(testing::Message()
                   << Name(dtype) << " " << in << " x " << out);
      const Floats weights = numbers.Uniform(in * out, -1.0f, 1.0f);
      const Floats bias = numbers.Uniform(in % 2 * out, -1.0f, 1.0f);
      const auto linear = MakeLinear(*factory, in, weights, bias);
      ASSERT_EQ(linear->in(), in);
      ASSERT_EQ(linear->out(), out);
      const Floats x = numbers.Uniform(kRows * in, -1.0f, 1.0f);
      Floats y(kRows * out);
      linear->Run(kRows, x.data(), in, y.data(), out, pool, scratch);
      for (size_t r = 0; r < kRows; ++r) {
        for (size_t j = 0; j < out; ++j) {
          double exact = 0;
          double size = 0;
          for (size_t i = 0; i < in; ++i) {
            const double product =
                static_cast<double>(Rounded(dtype, x[r * in + i])) *
                static_cast<double>(Rounded(dtype, weights[j * in + i]));
            exact += product;
            size += std::abs(product);
          }
          if (bias.size() != 0) exact += static_cast<double>(bias[j]);
          ASSERT_NEAR(static_cast<double>(y[r * out + j]), exact,
                      1e-6 * size + 1e-7)
              << "row " << r << " column " << j;
        }
      }
    }
  }
}

// The rows of x computed one by one.
Floats RowByRow(const Linear& linear, size_t rows, const Floats& x,
                ThreadPool& pool, LinearScratch& scratch,
                RowClass row_class = RowClass::kDecode) {
  Floats y(rows * linear.out());
  for (size_t r = 0; r < rows; ++r) {
    linear.Run(1, x.data() + r * linear.in(), linear.in(),
               y.data() + r * linear.out(), linear.out(), pool, scratch,
               row_class);
  }
  return y;
}

bool SameRow(const float* a, const float* b, size_t n) {
  return std::memcmp(a, b, n * sizeof(float)) == 0;
}

// Numbers so far apart that a sum in another order has other bits.
Floats Spread(Numbers& numbers, size_t n) {
  Floats values(n);
  for (float& value : values) {
    const int exponent = static_cast<int>(numbers.Below(24)) - 12;
    const float sign = numbers.Below(2) == 0 ? 1.0f : -1.0f;
    value = std::ldexp(sign * numbers.Uniform(1.0f, 2.0f), exponent);
  }
  return values;
}

// Spread inputs and weights; half of the inputs are large in pairs whose
// products cancel, for inputs 2i and 2i + 1 have opposite weights.
struct Telling {
  Telling(Numbers& numbers, size_t rows, size_t in, size_t out)
      : x(Spread(numbers, rows * in)), weights(Spread(numbers, out * in)) {
    for (size_t j = 0; j < out; ++j) {
      for (size_t i = 0; i + 1 < in; i += 2) {
        weights[j * in + i + 1] = -weights[j * in + i];
      }
    }
    for (size_t r = 0; r < rows; r += 2) {
      for (size_t i = 0; i + 1 < in; i += 2) {
        if (numbers.Below(2) == 0) continue;
        x[r * in + i] *= 4096.0f;
        x[r * in + i + 1] = x[r * in + i];
      }
    }
  }

  Floats x;        // f32[rows, in]
  Floats weights;  // f32[out, in]
};

// Random choices of the rows of `all`, `rows` at a time, have the bits that
// each row has alone in its class.
void ExpectBatchesAreSingles(const Linear& linear, const Floats& all,
                             std::span<const size_t> batches,
                             Numbers& numbers) {
  const size_t in = linear.in();
  const size_t out = linear.out();
  const size_t distinct = all.size() / in;
  ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  LinearScratch scratch;
  for (const RowClass row_class : kRowClasses) {
    const Floats alone =
        RowByRow(linear, distinct, all, pools[0], scratch, row_class);
    for (const size_t rows : batches) {
      std::vector<size_t> chosen(rows);
      Floats x(rows * in);
      for (size_t r = 0; r < rows; ++r) {
        chosen[r] = numbers.Below(distinct);
        std::memcpy(x.data() + r * in, all.data() + chosen[r] * in,
                    in * sizeof(float));
      }
      Floats y(rows * out);
      linear.Run(rows, x.data(), in, y.data(), out, pools[rows % 3], scratch,
                 row_class);
      for (size_t r = 0; r < rows; ++r) {
        ASSERT_TRUE(
            SameRow(y.data() + r * out, alone.data() + chosen[r] * out, out))
            << "row " << r << " of " << rows << ", class "
            << static_cast<int>(row_class);
      }
    }
  }
}

// With few inputs a sum of random numbers mostly has no rounding, so the order
// does not show: hence numbers that are far apart, and all these shapes.
TEST(LinearTest, RowsDoNotDependOnTheBatchNorOnThreads) {
  const uint64_t seed = 82;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  std::vector<size_t> batches(70);
  std::iota(batches.begin(), batches.end(), size_t{1});
  std::vector<Shape> shapes(std::begin(kShapes), std::end(kShapes));
  for (const size_t in : {3u, 4u, 5u, 8u, 16u, 24u, 33u, 48u, 96u, 100u}) {
    shapes.insert(shapes.end(), {{in, 1}, {in, 15}, {in, 64}});
  }
  for (const DType dtype : kTypes) {
    const auto factory = MakeFactory(dtype);
    for (const auto& [in, out] : shapes) {
      SCOPED_TRACE(testing::Message()
                   << Name(dtype) << " " << in << " x " << out);
      const Telling telling(numbers, 70, in, out);
      const auto linear = MakeLinear(*factory, in, telling.weights);
      ExpectBatchesAreSingles(*linear, telling.x, batches, numbers);
    }
  }
}

TEST(LinearTest, LargeBatchesAreSinglesToo) {
  const uint64_t seed = 88;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kBatches[] = {127, 128, 129, 300, 513, 640, 1100};
  for (const DType dtype : kTypes) {
    const auto factory = MakeFactory(dtype);
    for (const auto& [in, out] :
         {Shape{3, 64}, Shape{16, 1}, Shape{64, 130}, Shape{300, 70}}) {
      SCOPED_TRACE(testing::Message()
                   << Name(dtype) << " " << in << " x " << out);
      const Telling telling(numbers, 40, in, out);
      const auto linear = MakeLinear(*factory, in, telling.weights);
      ExpectBatchesAreSingles(*linear, telling.x, kBatches, numbers);
    }
  }
}

TEST(LinearTest, PaddingAndNeighboursNeverLeakIntoARow) {
  const uint64_t seed = 83;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kIn = 100;
  constexpr size_t kOut = 65;
  ThreadPool pool(2);
  for (const DType dtype : kTypes) {
    const auto factory = MakeFactory(dtype);
    const Floats weights = numbers.Uniform(kIn * kOut, -1.0f, 1.0f);
    const auto linear = MakeLinear(*factory, kIn, weights);
    for (size_t rows = 1; rows <= 70; ++rows) {
      Floats x = numbers.Uniform(rows * kIn, -1.0f, 1.0f);
      LinearScratch fresh;
      const Floats expected = RowByRow(*linear, rows, x, pool, fresh);
      // A larger call of nothing but NaN leaves the scratch as bad as can be.
      LinearScratch spoiled;
      Floats nans(80 * kIn);
      for (float& value : nans) value = kNan;
      Floats y(80 * kOut);
      linear->Run(80, nans.data(), kIn, y.data(), kOut, pool, spoiled);
      const size_t bad = numbers.Below(rows);
      for (size_t i = 0; i < kIn; ++i) x[bad * kIn + i] = kNan;
      linear->Run(rows, x.data(), kIn, y.data(), kOut, pool, spoiled);
      for (size_t r = 0; r < rows; ++r) {
        if (r == bad) {
          ASSERT_TRUE(std::isnan(y[r * kOut]));
        } else {
          ASSERT_TRUE(
              SameRow(y.data() + r * kOut, expected.data() + r * kOut, kOut))
              << "row " << r << " of " << rows;
        }
      }
    }
  }
}

TEST(LinearTest, StridesReachNoOtherElement) {
  const uint64_t seed = 84;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kIn = 37;
  constexpr size_t kOut = 130;
  constexpr size_t kInStride = 41;
  constexpr size_t kOutStride = 133;
  ThreadPool pool(3);
  LinearScratch scratch;
  for (const DType dtype : kTypes) {
    const auto factory = MakeFactory(dtype);
    const Floats weights = numbers.Uniform(kIn * kOut, -1.0f, 1.0f);
    const auto linear = MakeLinear(*factory, kIn, weights);
    for (const size_t rows : {1u, 2u, 5u, 64u, 67u}) {
      const Floats x = numbers.Uniform(rows * kIn, -1.0f, 1.0f);
      const Floats expected = RowByRow(*linear, rows, x, pool, scratch);
      Floats wide_x((rows - 1) * kInStride + kIn);
      for (float& value : wide_x) value = kNan;
      for (size_t r = 0; r < rows; ++r) {
        std::memcpy(wide_x.data() + r * kInStride, x.data() + r * kIn,
                    kIn * sizeof(float));
      }
      Floats wide_y((rows - 1) * kOutStride + kOut);
      for (float& value : wide_y) value = 7.0f;
      linear->Run(rows, wide_x.data(), kInStride, wide_y.data(), kOutStride,
                  pool, scratch);
      for (size_t i = 0; i < wide_y.size(); ++i) {
        const size_t r = i / kOutStride;
        const size_t j = i % kOutStride;
        const float want = j < kOut ? expected[r * kOut + j] : 7.0f;
        ASSERT_TRUE(SameBits(wide_y[i], want)) << r << " " << j;
      }
    }
  }
}

TEST(LinearTest, PartsOfAnyTypeStackToOneMatrix) {
  const uint64_t seed = 85;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kIn = 24;
  constexpr size_t kRowsOfPart[] = {70, 3, 100};
  ThreadPool pool(2);
  LinearScratch scratch;
  for (const DType dtype : kTypes) {
    const auto factory = MakeFactory(dtype);
    // Values that all three types hold exactly.
    Floats weights(173 * kIn);
    for (float& value : weights) {
      value = static_cast<float>(numbers.Below(64)) / 16.0f - 2.0f;
    }
    std::vector<uint16_t> bf16(weights.size());
    ConvertToBf16(bf16.size(), weights.data(), bf16.data());
    const WeightRows parts[] = {
        {{weights.data(), DType::kF32}, kRowsOfPart[0]},
        {{bf16.data() + 70 * kIn, DType::kBf16}, kRowsOfPart[1]},
        {{weights.data() + 73 * kIn, DType::kF32}, kRowsOfPart[2]}};
    const auto stacked = factory->Make(kIn, parts);
    ASSERT_TRUE(stacked.ok()) << stacked.status();
    const auto whole = MakeLinear(*factory, kIn, weights);
    const Floats x = numbers.Uniform(kIn, -1.0f, 1.0f);
    Floats y(173);
    Floats expected(173);
    (*stacked)->Run(1, x.data(), kIn, y.data(), 173, pool, scratch);
    whole->Run(1, x.data(), kIn, expected.data(), 173, pool, scratch);
    EXPECT_TRUE(SameRow(y.data(), expected.data(), 173));
  }
}

TEST(LinearTest, OneScratchServesManyShapesAndPools) {
  const uint64_t seed = 86;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  LinearScratch shared;
  const auto factory = MakeFactory(DType::kF32);
  for (const size_t threads : {3u, 1u, 4u}) {
    ThreadPool pool(threads);
    for (const size_t in : {5u, 64u, 7u}) {
      const Floats weights = numbers.Uniform(in * 200, -1.0f, 1.0f);
      const auto linear = MakeLinear(*factory, in, weights);
      const Floats x = numbers.Uniform(9 * in, -1.0f, 1.0f);
      LinearScratch fresh;
      const Floats expected = RowByRow(*linear, 9, x, pool, fresh);
      Floats y(9 * 200);
      linear->Run(9, x.data(), in, y.data(), 200, pool, shared);
      EXPECT_TRUE(SameRow(y.data(), expected.data(), y.size()));
      linear->Run(0, nullptr, in, nullptr, 200, pool, shared);
    }
  }
}

TEST(LinearFactoryTest, ShapesAreTriedOnceAndReported) {
  const auto factory = MakeFactory(DType::kF32);
  EXPECT_EQ(factory->report().weight_dtype, "f32");
  EXPECT_FALSE(factory->report().onednn_version.empty());
  if (HeldToAvx2()) {
    EXPECT_EQ(factory->report().isa, "avx2");
  }
  const Floats weights(32 * 600);
  const auto first = MakeLinear(*factory, 32, weights);
  const auto shapes = factory->report().shapes;
  ASSERT_FALSE(shapes.empty());
  const auto second = MakeLinear(*factory, 32, weights);
  EXPECT_EQ(factory->report().shapes.size(), shapes.size());
  for (const LinearReport::Shape& shape : shapes) {
    EXPECT_EQ(shape.in, 32u);
    EXPECT_FALSE(shape.implementation.empty());
    for (const auto& tiles : {shape.decode_tiles, shape.prefill_tiles}) {
      EXPECT_FALSE(tiles.empty());
      EXPECT_TRUE(std::is_sorted(tiles.begin(), tiles.end()));
    }
  }
}

// A loop of our own, or oneDNN.
std::string LoopOf(const std::string& implementation) {
  if (implementation.starts_with("panels+")) return "panels+";
  return implementation == "simd_panels" ? implementation : "oneDNN";
}

// That of a CPU whose instructions oneDNN calls so; empty where it depends on
// what oneDNN's order of sums is.
std::string ExpectedLoop(DType dtype, const std::string& isa) {
  if (!isa.starts_with("avx512")) {
    const bool vnni = isa.starts_with("avx2_vnni");
    return dtype == DType::kI8 && vnni ? "oneDNN" : "simd_panels";
  }
  if (isa == "avx512_core_bf16") return "panels+";
  if (isa != "avx512_core_vnni" && isa != "avx512_core") return "";
  if (dtype == DType::kBf16) return "simd_panels";
  return dtype == DType::kI8 && isa == "avx512_core" ? "" : "panels+";
}

// Where nothing is faster, a library whose sums come in an unknown order would
// otherwise go unnoticed.
TEST(LinearFactoryTest, LoopsOfOurOwnAreUsedWhereTheyAreFaster) {
  for (const DType dtype : {DType::kF32, DType::kBf16, DType::kI8}) {
    const auto factory = MakeFactory(dtype);
    const std::string isa = factory->report().isa;
    const std::string expected = ExpectedLoop(dtype, isa);
    if (expected.empty()) continue;
    for (const size_t in :
         {size_t{64}, size_t{1024}, size_t{2048}, size_t{4096}}) {
      MakeLinear(*factory, in, Floats(64 * in));
    }
    EXPECT_EQ(factory->report().shapes.size(), 4u);
    for (const LinearReport::Shape& shape : factory->report().shapes) {
      EXPECT_EQ(LoopOf(shape.implementation), expected)
          << Name(dtype) << ", " << isa << ", " << shape.in
          << " inputs: " << shape.implementation;
    }
  }
}

TEST(LinearFactoryTest, BitsDoNotDependOnTheThreadsThatPack) {
  const uint64_t seed = 88;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  constexpr size_t kIn = 520;
  constexpr size_t kOut = 1500;
  constexpr size_t kRows = 3;
  const Floats weights = numbers.Uniform(kIn * kOut, -1.0f, 1.0f);
  const Floats x = numbers.Uniform(kRows * kIn, -1.0f, 1.0f);
  ThreadPool pool(1);
  LinearScratch scratch;
  for (const DType dtype : kTypes) {
    std::vector<Floats> results;
    for (const size_t threads : {1u, 2u, 5u}) {
      const auto linear =
          MakeLinear(*MakeFactory(dtype, threads), kIn, weights);
      results.emplace_back(kRows * kOut);
      linear->Run(kRows, x.data(), kIn, results.back().data(), kOut, pool,
                  scratch);
      EXPECT_TRUE(std::ranges::equal(results.front(), results.back()))
          << Name(dtype) << ", threads " << threads;
    }
  }
}

TEST(LinearFactoryTest, LinearsOutliveTheirFactory) {
  auto factory = MakeFactory(DType::kF32);
  const Floats weights = Numbers(87).Uniform(8 * 9, -1.0f, 1.0f);
  const auto linear = MakeLinear(*factory, 8, weights);
  factory.reset();
  ThreadPool pool(1);
  LinearScratch scratch;
  const Floats x(8);
  Floats y(9);
  linear->Run(1, x.data(), 8, y.data(), 9, pool, scratch);
  EXPECT_EQ(y[8], 0.0f);
}

TEST(LinearFactoryTest, RefusesWhatItCannotCompute) {
  EXPECT_EQ(LinearFactory::Create(DType::kF16).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto factory = MakeFactory(DType::kF32);
  const float weights[6] = {};
  const WeightRows part = {{weights, DType::kF32}, 2};
  const auto code = [&](size_t in, std::span<const WeightRows> parts,
                        std::span<const float> bias) {
    return factory->Make(in, parts, bias).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(0, {&part, 1}, {}), kInvalid);
  EXPECT_EQ(code(3, {}, {}), kInvalid);
  EXPECT_EQ(code(3, {&part, 1}, {weights, 3}), kInvalid);
  EXPECT_EQ(code(3, {&part, 1}, {weights, 2}), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace steadystate::linear_test
