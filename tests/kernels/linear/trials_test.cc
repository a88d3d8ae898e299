// Goal: trials see every way in which a multiplication can betray a row, or
// lose something of its bytes, and their numbers are what is promised of them:
// spread evenly over their binades, in pairs that cancel, with the last input
// among them, and the same every time. Method: multiplications that err on
// purpose. They add up in every order that is known (summation_orders.h), and
// whatever two of them compute differently must differ in the results of a
// trial.

#include "kernels/linear/trials.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kernels/linear/matrix_memory.h"
#include "kernels/linear/tiling.h"
#include "tests/kernels/linear/summation_orders.h"

namespace steadystate::trials_test {
namespace {

constexpr size_t kIn = 5;
constexpr size_t kWidth = 3;

// A tile multiplication of `rows` rows whose result is spoiled at one
// position.
auto Multiply(size_t rows, size_t bad_position, float error) {
  return [=](const void* x, float* y) {
    std::vector<float> values(rows * kIn);
    std::memcpy(values.data(), x, values.size() * sizeof(float));
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < kWidth; ++j) {
        float sum = r == bad_position ? error : 0.0f;
        for (size_t i = 0; i < kIn; ++i) {
          sum += values[r * kIn + i] * static_cast<float>(i + j);
        }
        y[r * kWidth + j] = sum;
      }
    }
  };
}

TEST(TileTrialsTest, HonestTilesOfAllSizesAgree) {
  const TileTrials trials(kIn, kWidth, DType::kF32);
  const TileTrial one = trials.Try(1, Multiply(1, 99, 0.0f));
  EXPECT_TRUE(one.position_free);
  for (const size_t rows : {2u, 4u, 7u, 8u, 16u, 33u}) {
    const TileTrial trial = trials.Try(rows, Multiply(rows, 99, 0.0f));
    EXPECT_EQ(trial.rows, rows);
    EXPECT_TRUE(trial.position_free);
    EXPECT_EQ(trial.results, one.results);
  }
}

TEST(TileTrialsTest, OneBadPositionIsFoundWhereverItIs) {
  const TileTrials trials(kIn, kWidth, DType::kF32);
  for (const size_t rows : {2u, 4u, 8u, 16u, 33u}) {
    for (size_t bad = 0; bad < rows; ++bad) {
      EXPECT_FALSE(trials.Try(rows, Multiply(rows, bad, 1e-3f)).position_free)
          << rows << " " << bad;
    }
  }
}

TEST(TileTrialsTest, AnInfluenceOfNeighboursIsFound) {
  const TileTrials trials(kIn, kWidth, DType::kF32);
  constexpr size_t kRows = 4;
  const auto leaking = [](const void* x, float* y) {
    Multiply(kRows, 99, 0.0f)(x, y);
    float first = 0;
    std::memcpy(&first, x, sizeof(first));
    y[2 * kWidth] += first;
  };
  EXPECT_FALSE(trials.Try(kRows, leaking).position_free);
}

std::vector<float> ToFloats(DType dtype, size_t n, const void* from) {
  std::vector<float> values(n);
  ConvertToF32({from, dtype}, 0, n, values.data());
  return values;
}

// A trial's columns, multiplied in any order.
class FakeBlock {
 public:
  FakeBlock(const TileTrials& trials, size_t in, size_t width, DType dtype)
      : in_(in),
        width_(width),
        dtype_(dtype),
        weights_(ToFloats(dtype, in * width, trials.weights())) {}

  // Multiplies `rows` rows, the one at `odd_position` in another order.
  auto Multiply(size_t rows, const SummationOrder& order, size_t odd_position,
                const SummationOrder& odd) const {
    return [this, rows, &order, odd_position, &odd](const void* x, float* y) {
      const size_t stride = RowBytes(dtype_, in_) / SizeOf(dtype_);
      const std::vector<float> values = ToFloats(dtype_, rows * stride, x);
      for (size_t r = 0; r < rows; ++r) {
        const SummationOrder& of_row = r == odd_position ? odd : order;
        for (size_t j = 0; j < width_; ++j) {
          y[r * width_ + j] =
              of_row.sum(FloatTerms({values.data() + r * stride, in_},
                                    {weights_.data() + j * in_, in_}));
        }
      }
    };
  }

  auto Multiply(size_t rows, const SummationOrder& order) const {
    return Multiply(rows, order, rows, order);
  }

 private:
  const size_t in_;
  const size_t width_;
  const DType dtype_;
  const std::vector<float> weights_;
};

const SummationOrder& Named(const std::vector<SummationOrder>& orders,
                            absl::string_view name) {
  for (const SummationOrder& order : orders) {
    if (order.name == name) return order;
  }
  ADD_FAILURE() << "no order " << name;
  return orders.front();
}

// True if two results, f32[rows, width], differ in column j.
bool ColumnDiffers(const std::vector<float>& a, const std::vector<float>& b,
                   size_t width, size_t j) {
  for (size_t i = j; i < a.size(); i += width) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) return true;
  }
  return false;
}

class TrialPowerTest : public testing::TestWithParam<DType> {
 protected:
  // What a multiplication of one row at a time gives in each order.
  std::vector<std::vector<float>> ResultsOfAll(size_t in, size_t width) const {
    const TileTrials trials(in, width, GetParam());
    const FakeBlock block(trials, in, width, GetParam());
    std::vector<std::vector<float>> results;
    for (const SummationOrder& order : orders_) {
      results.push_back(trials.Try(1, block.Multiply(1, order)).results);
    }
    return results;
  }

  // Every two formulas that differ show: in one of `width` columns at least,
  // or in each.
  void ExpectAllTold(size_t in, size_t width, bool in_each_column) const {
    const std::vector<std::vector<float>> results = ResultsOfAll(in, width);
    std::vector<uint64_t> formulas;
    for (const SummationOrder& order : orders_) {
      formulas.push_back(order.formula(FormulaTerms(in, GetParam())));
    }
    for (size_t a = 0; a < orders_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        size_t columns = 0;
        for (size_t j = 0; j < width; ++j) {
          columns += ColumnDiffers(results[a], results[b], width, j);
        }
        const std::string both = orders_[a].name + " and " + orders_[b].name +
                                 ", " + std::to_string(in) + " inputs";
        if (formulas[a] == formulas[b]) {
          EXPECT_EQ(columns, 0u) << both;
        } else {
          EXPECT_GE(columns, in_each_column ? width : 1) << both;
        }
      }
    }
  }

  const std::vector<SummationOrder> orders_ = AllSummationOrders();
};

TEST_P(TrialPowerTest, EveryOrderOfFewInputsShowsInEveryColumn) {
  for (size_t in = 1; in <= 64; ++in) {
    ExpectAllTold(in, 1, true);
    if (in % 8 < 4) ExpectAllTold(in, 3, true);
  }
}

TEST_P(TrialPowerTest, EveryOrderOfManyInputsShows) {
  for (const size_t in : {65u, 100u, 127u, 256u, 513u, 1030u, 2049u}) {
    ExpectAllTold(in, 1, true);
    ExpectAllTold(in, 16, false);
  }
}

// Rows whose place in a tile decides, at each place.
TEST_P(TrialPowerTest, OnePositionWithAnotherOrderIsFound) {
  const SummationOrder& chain = Named(orders_, "chain");
  constexpr size_t kRowsOfTile = 5;
  for (const size_t in : {3u, 4u, 7u, 16u, 33u, 100u}) {
    const TileTrials trials(in, 2, GetParam());
    const FakeBlock block(trials, in, 2, GetParam());
    const uint64_t right = chain.formula(FormulaTerms(in, GetParam()));
    for (const SummationOrder& order : orders_) {
      const bool same = order.formula(FormulaTerms(in, GetParam())) == right;
      for (size_t position = 0; position < kRowsOfTile; ++position) {
        const TileTrial trial = trials.Try(
            kRowsOfTile, block.Multiply(kRowsOfTile, chain, position, order));
        EXPECT_EQ(trial.position_free, same)
            << order.name << " at " << position << ", " << in << " inputs";
      }
    }
  }
}

// A library that multiplies single rows of bf16 by VDPBF16PS and more by AMX,
// as oneDNN 3.7 does where inputs are few.
TEST_P(TrialPowerTest, SinglesInAnotherOrderAreNeverMixedWithTiles) {
  const SummationOrder& single = Named(orders_, "turned groups of 2");
  const SummationOrder& several = Named(orders_, "even and odd of 32");
  for (size_t in = 1; in <= 64; ++in) {
    for (const size_t width : {1u, 16u}) {
      const TileTrials trials(in, width, GetParam());
      const FakeBlock block(trials, in, width, GetParam());
      std::vector<TileTrial> tried = {trials.Try(1, block.Multiply(1, single))};
      for (const size_t rows : {2u, 8u}) {
        tried.push_back(trials.Try(rows, block.Multiply(rows, several)));
      }
      const bool same = single.formula(FormulaTerms(in, GetParam())) ==
                        several.formula(FormulaTerms(in, GetParam()));
      EXPECT_EQ(same, in < 3 && (in < 2 || GetParam() == DType::kBf16));
      const std::vector<size_t> expected =
          same ? std::vector<size_t>{1, 2, 8} : std::vector<size_t>{2, 8};
      EXPECT_EQ(ChooseRowTiles(tried).decode, expected) << in << " inputs";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floats, TrialPowerTest,
                         testing::Values(DType::kF32, DType::kBf16),
                         [](const auto& type) {
                           return std::string(Name(type.param));
                         });

using Sums = IntegerTrials::Sums;

constexpr size_t kBytesIn = 6;
constexpr size_t kBytesWidth = 5;

int32_t Saturated(int32_t value) {
  return std::clamp<int32_t>(value, INT16_MIN, INT16_MAX);
}

// Pairs of products added in 32 bits, or in 16 as by a CPU without VNNI.
auto MultiplyBytes(const IntegerTrials& trials, size_t rows, bool saturate) {
  return [&trials, rows, saturate](const uint8_t* x, int32_t* y) {
    for (size_t r = 0; r < rows; ++r) {
      for (size_t j = 0; j < kBytesWidth; ++j) {
        int32_t sum = 0;
        for (size_t i = 0; i < kBytesIn; i += 2) {
          const uint8_t* const a = x + r * kBytesIn + i;
          const int8_t* const w = trials.weights() + j * kBytesIn + i;
          const int32_t pair = a[0] * w[0] + a[1] * w[1];
          sum += saturate ? Saturated(pair) : pair;
        }
        y[r * kBytesWidth + j] = sum;
      }
    }
  };
}

TEST(IntegerTrialsTest, ExactSumsOfAllSizesPass) {
  for (const uint8_t most : {uint8_t{127}, uint8_t{255}}) {
    const IntegerTrials trials(kBytesIn, kBytesWidth, most);
    for (const size_t rows : {1u, 2u, 3u, 4u, 17u}) {
      EXPECT_TRUE(
          trials.Exact(rows, Sums::kWhole, MultiplyBytes(trials, rows, false)));
    }
  }
}

TEST(IntegerTrialsTest, SaturationIsFoundWhereTheRangeAllowsIt) {
  const IntegerTrials all(kBytesIn, kBytesWidth, 255);
  const IntegerTrials half(kBytesIn, kBytesWidth, 127);
  for (const size_t rows : {1u, 2u, 3u, 4u, 17u}) {
    EXPECT_FALSE(all.Exact(rows, Sums::kWhole, MultiplyBytes(all, rows, true)));
    EXPECT_TRUE(
        half.Exact(rows, Sums::kWhole, MultiplyBytes(half, rows, true)));
  }
}

// Above 2^24, which takes many inputs.
TEST(IntegerTrialsTest, RoundedSumsAreToldFromWholeOnes) {
  constexpr size_t kManyInputs = 4096;
  constexpr size_t kRows = 4;
  const IntegerTrials trials(kManyInputs, kBytesWidth, 255);
  const auto multiply = [&trials](bool round) {
    return [&trials, round](const uint8_t* x, int32_t* y) {
      for (size_t i = 0; i < kRows * kBytesWidth; ++i) {
        const uint8_t* const row = x + i / kBytesWidth * kManyInputs;
        const int8_t* const column =
            trials.weights() + i % kBytesWidth * kManyInputs;
        y[i] = std::inner_product(row, row + kManyInputs, column, 0);
        if (round) y[i] = static_cast<int32_t>(static_cast<float>(y[i]));
      }
    };
  };
  EXPECT_TRUE(trials.Exact(kRows, Sums::kWhole, multiply(false)));
  EXPECT_FALSE(trials.Exact(kRows, Sums::kWhole, multiply(true)));
  EXPECT_TRUE(trials.Exact(kRows, Sums::kRoundedToF32, multiply(true)));
  EXPECT_FALSE(trials.Exact(kRows, Sums::kRoundedToF32, multiply(false)));
}

// A way to multiply a row and a column that loses something, and the inputs
// from which on it can: with fewer, all of its sums are right.
struct WrongWay {
  const char* name;
  std::function<int32_t(std::span<const uint8_t>, std::span<const int8_t>)> dot;
  size_t loses_from;  // inputs
  // Likewise what a single rounding at the end would not.
  size_t differs_from_rounded_from;
};

int32_t Products(std::span<const uint8_t> x, std::span<const int8_t> w,
                 size_t begin, size_t end) {
  int32_t sum = 0;
  for (size_t i = begin; i < std::min(end, x.size()); ++i) {
    sum += int32_t{x[i]} * int32_t{w[i]};
  }
  return sum;
}

// Groups of `length` products are added up without loss, then in f32.
auto SumOfGroupsInF32(size_t length) {
  return [length](std::span<const uint8_t> x, std::span<const int8_t> w) {
    float sum = 0;
    for (size_t i = 0; i < x.size(); i += length) {
      sum += static_cast<float>(Products(x, w, i, i + length));
    }
    return static_cast<int32_t>(sum);
  };
}

// Groups of `length` products are added up in 16 bits.
auto SaturatedGroups(size_t length) {
  return [length](std::span<const uint8_t> x, std::span<const int8_t> w) {
    int32_t sum = 0;
    for (size_t i = 0; i < x.size(); i += length) {
      int32_t group = 0;
      for (size_t k = i; k < std::min(i + length, x.size()); ++k) {
        group = Saturated(group + Products(x, w, k, k + 1));
      }
      sum += group;
    }
    return sum;
  };
}

int32_t EvenAndOddInF32(std::span<const uint8_t> x, std::span<const int8_t> w) {
  float sums[2] = {0, 0};
  for (size_t i = 0; i < x.size(); ++i) {
    sums[i % 2] += static_cast<float>(Products(x, w, i, i + 1));
  }
  return static_cast<int32_t>(sums[0] + sums[1]);
}

int32_t RoundedTowardsZero(std::span<const uint8_t> x,
                           std::span<const int8_t> w) {
  const int32_t sum = Products(x, w, 0, x.size());
  auto rounded = static_cast<float>(sum);
  if (std::abs(static_cast<double>(rounded)) > std::abs(double{1} * sum)) {
    rounded = std::nextafter(rounded, 0.0f);
  }
  return static_cast<int32_t>(rounded);
}

std::vector<WrongWay> WrongWays() {
  // 519 times 255 times 127 is the first above 2^24.
  std::vector<WrongWay> ways = {
      {"pairs in 16 bits", SaturatedGroups(2), 2, 2},
      {"fours in 16 bits", SaturatedGroups(4), 2, 2},
      {"all in 16 bits", SaturatedGroups(SIZE_MAX / 2), 2, 2},
      {"rounded at the end", SumOfGroupsInF32(SIZE_MAX / 2), 519, SIZE_MAX},
      {"rounded towards zero", RoundedTowardsZero, 519, 525},
      {"even and odd in f32", EvenAndOddInF32, 519, 1060},
      {"inputs with a sign",
       [](std::span<const uint8_t> x, std::span<const int8_t> w) {
         int32_t sum = 0;
         for (size_t i = 0; i < x.size(); ++i) {
           sum += static_cast<int8_t>(x[i]) * int32_t{w[i]};
         }
         return sum;
       },
       1, 1},
      {"without the last",
       [](std::span<const uint8_t> x, std::span<const int8_t> w) {
         return Products(x, w, 0, x.size() - 1);
       },
       1, 1},
  };
  for (const size_t length : {1u, 2u, 4u, 64u, 256u}) {
    ways.push_back(
        {"groups in f32", SumOfGroupsInF32(length), 519, 519 + 3 * length});
  }
  return ways;
}

TEST(IntegerTrialsTest, EveryWrongWayIsFoundAtEveryNumberOfInputs) {
  for (const size_t in : {1u, 2u, 3u, 4u, 7u, 64u, 519u, 520u, 522u, 523u, 530u,
                          600u, 768u, 1000u, 1024u, 1300u, 2048u, 4096u}) {
    for (const size_t width : {1u, 2u, 16u}) {
      const IntegerTrials trials(in, width, 255);
      for (const WrongWay& way : WrongWays()) {
        SCOPED_TRACE(testing::Message()
                     << way.name << ", " << in << " x " << width);
        const auto multiply = [&](const uint8_t* x, int32_t* y) {
          for (size_t j = 0; j < width; ++j) {
            y[j] = way.dot({x, in}, {trials.weights() + j * in, in});
          }
        };
        EXPECT_EQ(trials.Exact(1, Sums::kWhole, multiply), in < way.loses_from);
        if (in >= way.differs_from_rounded_from) {
          EXPECT_FALSE(trials.Exact(1, Sums::kRoundedToF32, multiply));
        }
      }
    }
  }
}

TEST(IntegerTrialsTest, OneWrongSumIsFoundWhereverItIs) {
  const IntegerTrials trials(kBytesIn, kBytesWidth, 255);
  constexpr size_t kRows = 5;
  for (size_t bad = 0; bad < kRows * kBytesWidth; ++bad) {
    EXPECT_FALSE(trials.Exact(kRows, Sums::kWhole,
                              [&](const uint8_t* x, int32_t* y) {
                                MultiplyBytes(trials, kRows, false)(x, y);
                                ++y[bad];
                              }))
        << bad;
  }
}

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
  constexpr size_t kMostIn = 65536;
  TellingNumbers numbers(kMostIn);
  std::vector<float> column(kMostIn);
  std::vector<float> row(kMostIn);
  numbers.FillColumn(column.data());
  for (size_t r = 0; r < 4; ++r) {
    numbers.FillRow(row.data());
    float magnitude = 0;
    for (size_t i = 0; i < kMostIn; ++i)
      magnitude += std::abs(row[i] * column[i]);
    EXPECT_LT(magnitude, 1e20f);
  }
}

}  // namespace
}  // namespace steadystate::trials_test
