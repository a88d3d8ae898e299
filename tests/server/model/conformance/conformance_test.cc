// Goal: every family of the registry keeps the promises that sessions rest on:
// a sequence's results are a function of its own tokens and cuts, to the bit;
// other cuts agree within rounding; a state is its bytes; every SIMD target
// agrees. Method: the plain golden checkpoint of each family, fed in many ways.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/targets.h"
#include "kernels/cpu_target.h"
#include "tests/server/model/conformance/sequence.h"
#include "tests/server/model/conformance/spread_weights.h"

namespace steadystate::conformance_test {
namespace {

// Between two ways to add up the same numbers in float32.
constexpr double kTolerance = 1e-5;
// The same where inputs of products are rounded to bytes.
constexpr double kWholeNumberTolerance = 2e-2;

class ConformanceTest : public testing::TestWithParam<std::string> {
 protected:
  const std::shared_ptr<const Model> model_ =
      LoadGolden(GoldenFolder(GetParam()));
  const std::vector<int32_t> tokens_ = RandomTokens(*model_, 60, 1);
  const std::vector<size_t> pieces_ = RandomPieces(11, 9, 2);
};

INSTANTIATE_TEST_SUITE_P(Families, ConformanceTest,
                         testing::ValuesIn(AllFamilies()),
                         [](const auto& instance) { return instance.param; });

TEST_P(ConformanceTest, HowASequenceIsCutShowsOnlyInRounding) {
  Runner runner(*model_);
  const auto run = [&](const std::vector<size_t>& pieces) {
    Sequence sequence(*model_);
    return runner.Feed(sequence, tokens_, pieces);
  };
  const std::vector<float> steps = run({1});
  EXPECT_LE(RelativeRmsDifference(run({tokens_.size()}), steps), kTolerance);
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    EXPECT_LE(RelativeRmsDifference(run(RandomPieces(8, 17, seed)), steps),
              kTolerance)
        << "seed " << seed;
  }
}

TEST_P(ConformanceTest, EqualCutsGiveEqualBits) {
  Runner runner(*model_);
  Runner other(*model_, 64, 2);
  Sequence first(*model_);
  Sequence second(*model_);
  EXPECT_EQ(runner.Feed(first, tokens_, pieces_),
            other.Feed(second, tokens_, pieces_));
  EXPECT_EQ(first.state(), second.state());
}

// Sequences of different ages, each with pieces of its own, in one batch.
void ExpectBatchesAreSingles(const Model& model, size_t threads) {
  constexpr size_t kSequences = 7;
  constexpr size_t kRounds = 6;
  Runner together(model, 256, threads);
  Runner alone(model);
  std::vector<Sequence> batched(kSequences, Sequence(model));
  std::vector<Sequence> single(kSequences, Sequence(model));
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::vector<std::vector<int32_t>> tokens;
    for (uint32_t i = 0; i < kSequences; ++i) {
      tokens.push_back(RandomTokens(
          model, RandomPieces(1, 12, 100 * round + i)[0], 7 * round + i));
    }
    std::vector<Fed> parts;
    // Later ones join later.
    for (size_t i = 0; i < std::min<size_t>(kSequences, round + 3); ++i) {
      parts.push_back({&batched[i], tokens[i]});
    }
    const auto logits = together.FeedTogether(parts);
    ASSERT_TRUE(std::ranges::all_of(
        logits[0], [](float logit) { return std::isfinite(logit); }));
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t whole[] = {tokens[i].size()};
      ASSERT_EQ(logits[i], alone.Feed(single[i], tokens[i], whole));
      ASSERT_EQ(batched[i].state(), single[i].state());
    }
  }
}

TEST_P(ConformanceTest, ABatchIsItsSingles) {
  for (const size_t threads : {size_t{1}, size_t{2}}) {
    SCOPED_TRACE(threads);
    ExpectBatchesAreSingles(*model_, threads);
  }
  ExpectBatchesAreSingles(
      *LoadWithSpreadWeights(GoldenFolder(GetParam()), DType::kF32), 2);
}

TEST_P(ConformanceTest, ABatchIsItsSinglesWithBf16Weights) {
  const std::string folder = GoldenFolder(GetParam());
  ExpectBatchesAreSingles(*LoadGolden(folder, DType::kBf16), 2);
  ExpectBatchesAreSingles(*LoadWithSpreadWeights(folder, DType::kBf16), 2);
}

TEST_P(ConformanceTest, ABatchIsItsSinglesWithInt8Weights) {
  const auto model = LoadGolden(GoldenFolder(GetParam()), DType::kI8);
  ExpectBatchesAreSingles(*model, 2);
}

TEST_P(ConformanceTest, ABatchIsItsSinglesWithInt4Weights) {
  const auto model = LoadGolden(GoldenFolder(GetParam()), DType::kI4);
  ExpectBatchesAreSingles(*model, 1);
  ExpectBatchesAreSingles(*model, 2);
}

// Inputs that differ in a float's last place may be rounded to different bytes.
TEST_P(ConformanceTest, CutsShowOnlyInRoundingWithWholeNumbersForWeights) {
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    SCOPED_TRACE(Name(dtype));
    const auto model = LoadGolden(GoldenFolder(GetParam()), dtype);
    Runner runner(*model);
    Runner other(*model, 64, 2);
    Sequence first(*model);
    Sequence second(*model);
    const auto logits = runner.Feed(first, tokens_, pieces_);
    EXPECT_EQ(logits, other.Feed(second, tokens_, pieces_));
    EXPECT_EQ(first.state(), second.state());
    Sequence whole(*model);
    const size_t one_piece[] = {tokens_.size()};
    const double difference =
        RelativeRmsDifference(runner.Feed(whole, tokens_, one_piece), logits);
    std::printf("%s: %s, other cuts %.1e\n", GetParam().c_str(), Name(dtype),
                difference);
    EXPECT_LE(difference, kWholeNumberTolerance);
  }
}

// The family's model with states of another type, or null if it refuses that.
std::shared_ptr<const Model> LoadReduced(const std::string& family,
                                         StateDType states) {
  const auto model = Model::Load({.path = GoldenFolder(family),
                                  .weight_dtype = DType::kF32,
                                  .state_dtype = states});
  if (model.ok()) return *model;
  EXPECT_EQ(model.status().code(), absl::StatusCode::kFailedPrecondition);
  return nullptr;
}

TEST_P(ConformanceTest, ReducedStatesKeepThePromisesToo) {
  Runner runner(*model_);
  Sequence exact(*model_);
  const std::vector<float> expected = runner.Feed(exact, tokens_, pieces_);
  for (const auto& [states, tolerance] :
       {std::pair(StateDType::kBf16, 5e-2), {StateDType::kInt16, 1e-3}}) {
    SCOPED_TRACE(Name(states));
    const auto model = LoadReduced(GetParam(), states);
    if (model == nullptr) continue;
    EXPECT_LE(model->state_layout().bytes(), model_->state_layout().bytes());
    ExpectBatchesAreSingles(*model, 1);
    ExpectBatchesAreSingles(*model, 2);
    Runner alone(*model);
    for (const std::vector<size_t>& pieces : {{1}, pieces_}) {
      Sequence sequence(*model);
      EXPECT_LE(RelativeRmsDifference(alone.Feed(sequence, tokens_, pieces),
                                      expected),
                tolerance);
    }
  }
}

// Options of a family, and softmax layers in between, change nothing.
TEST(EveryGoldenCaseTest, ABatchIsItsSingles) {
  size_t cases = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GoldenFolder(""))) {
    if (!entry.is_directory()) continue;
    SCOPED_TRACE(entry.path().filename().string());
    ExpectBatchesAreSingles(*LoadGolden(entry.path()), 2);
    ++cases;
  }
  EXPECT_GE(cases, AllFamilies().size());
}

// Of a family's softmax layers, where it has such.
TEST_P(ConformanceTest, CachesInInt8KeepThePromisesToo) {
  const auto model = Model::Load({.path = GoldenFolder(GetParam()),
                                  .weight_dtype = DType::kF32,
                                  .cache_dtype = DType::kI8});
  ASSERT_TRUE(model.ok()) << model.status();
  const StateLayout& layout = (*model)->state_layout();
  const StateLayout& wide = model_->state_layout();
  // Windows are in the part that does not grow.
  EXPECT_LE(layout.bytes(), wide.bytes());
  EXPECT_LE(layout.token_bytes(), wide.token_bytes());
  if (layout.bytes() == wide.bytes() && layout.token_bytes() == 0) return;
  ExpectBatchesAreSingles(**model, 1);
  ExpectBatchesAreSingles(**model, 2);
}

TEST_P(ConformanceTest, AForkGoesItsOwnWay) {
  Runner runner(*model_);
  Sequence parent(*model_);
  runner.Feed(parent, tokens_, pieces_);
  Sequence fork = parent;
  const std::vector<int32_t> one = RandomTokens(*model_, 20, 3);
  const std::vector<int32_t> other = RandomTokens(*model_, 20, 4);
  const std::vector<float> of_fork = runner.Feed(fork, one, pieces_);
  const std::vector<float> of_parent = runner.Feed(parent, other, pieces_);
  EXPECT_NE(of_fork, of_parent);
  // As if each had been alone from the start.
  for (const auto& [tokens, logits] :
       {std::pair(one, of_fork), std::pair(other, of_parent)}) {
    Sequence alone(*model_);
    runner.Feed(alone, tokens_, pieces_);
    EXPECT_EQ(runner.Feed(alone, tokens, pieces_), logits);
  }
}

TEST_P(ConformanceTest, BytesThatWereKeptBringASequenceBack) {
  Runner runner(*model_);
  Sequence sequence(*model_);
  runner.Feed(sequence, tokens_, pieces_);
  const std::vector<std::byte> kept = sequence.state();
  const uint64_t position = sequence.position();
  const std::vector<int32_t> next = RandomTokens(*model_, 20, 5);
  const std::vector<float> expected = runner.Feed(sequence, next, pieces_);
  const std::vector<std::byte> expected_state = sequence.state();
  EXPECT_NE(expected_state, kept);
  // Back in the same sequence, and as another one of another runner.
  Sequence restored(*model_);
  restored.Restore(kept, position);
  sequence.Restore(kept, position);
  Runner other(*model_, 64, 2);
  EXPECT_EQ(runner.Feed(sequence, next, pieces_), expected);
  EXPECT_EQ(other.Feed(restored, next, pieces_), expected);
  EXPECT_EQ(sequence.state(), expected_state);
  EXPECT_EQ(restored.state(), expected_state);
}

TEST_P(ConformanceTest, EveryTargetOfTheKernelsAgrees) {
  const auto run = [&] {
    Runner runner(*model_);
    Sequence sequence(*model_);
    return runner.Feed(sequence, tokens_, pieces_);
  };
  const std::string best_name = KernelTargetName();
  const std::vector<float> best = run();
  int others = 0;
  for (int64_t targets = hwy::SupportedTargets(); targets != 0;
       targets &= targets - 1) {
    hwy::SetSupportedTargetsForTest(targets & -targets);
    others += KernelTargetName() != best_name;
    EXPECT_LE(RelativeRmsDifference(run(), best), kTolerance)
        << KernelTargetName();
    hwy::SetSupportedTargetsForTest(0);
  }
  EXPECT_EQ(KernelTargetName(), best_name);
  EXPECT_GT(others, 0) << "only " << best_name;
}

}  // namespace
}  // namespace steadystate::conformance_test
