// Goal: trials see every way in which a multiplication can betray a row.
// Method: multiplications that do so on purpose. They add up in every order
// that is known (summation_orders.h), and whatever two of them compute
// differently must differ in the results of a trial.

#include "kernels/linear/tile_trials.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kernels/linear/row_tiles.h"
#include "tests/kernels/linear/summation_orders.h"

namespace steadystate {
namespace {

constexpr size_t kIn = 5;
constexpr size_t kWidth = 3;

// A tile multiplication of `rows` rows whose result is spoiled at one position.
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
      const std::vector<float> values = ToFloats(dtype_, rows * in_, x);
      for (size_t r = 0; r < rows; ++r) {
        const SummationOrder& of_row = r == odd_position ? odd : order;
        for (size_t j = 0; j < width_; ++j) {
          y[r * width_ + j] =
              of_row.sum(FloatTerms({values.data() + r * in_, in_},
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

}  // namespace
}  // namespace steadystate
