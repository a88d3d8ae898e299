// Goal: decays are those of the formulas, and finite ones between 0 and 1 where
// gates saturate. Method: the formulas in double; extreme rates and inputs.
#include "server/model/parts/softplus_decay.h"

#include <cmath>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate {
namespace {

constexpr size_t kHeads = 2, kFactors = 3;

CheckpointContents Tensors(const std::vector<float>& A_log,
                           const std::vector<float>& dt_bias) {
  return {.config = {{"model_type", "none"}},
          .tensors = {
              {"attn.A_log", {DType::kF32, {kHeads}, A_log}},
              {"attn.dt_bias", {DType::kF32, {kHeads * kFactors}, dt_bias}}}};
}

SoftplusDecay MakeDecay(const std::vector<float>& A_log,
                        const std::vector<float>& dt_bias,
                        std::optional<double> lower_bound) {
  const PartHarness harness(Tensors(A_log, dt_bias));
  auto decay =
      SoftplusDecay::Make(harness.builder(), kHeads, kFactors, lower_bound);
  EXPECT_TRUE(decay.ok()) << decay.status();
  return *std::move(decay);
}

void ExpectFollowsFormula(std::optional<double> lower_bound) {
  const std::vector<float> A_log = {-1.5f, 0.75f};
  const std::vector<float> bias = {-4, -1, 0, 0.5f, 1, 3};
  const std::vector<float> inputs = {-3, 2, 0.25f, -0.5f, 30, -6};
  std::vector<float> x = inputs;
  std::vector<float> low(x.size());
  MakeDecay(A_log, bias, lower_bound).Apply(x.data(), low.data());
  for (size_t i = 0; i < x.size(); ++i) {
    const double f =
        static_cast<double>(inputs[i]) + static_cast<double>(bias[i]);
    const double rate = std::exp(static_cast<double>(A_log[i / kFactors]));
    const double log_alpha = lower_bound.has_value()
                                 ? *lower_bound / (1 + std::exp(-rate * f))
                                 : -rate * std::log1p(std::exp(f));
    EXPECT_NEAR(static_cast<double>(x[i]) / std::exp(log_alpha), 1,
                2e-6 - 1e-6 * log_alpha)
        << i;
    // What is left of one is right to its own places, too.
    const double loss =
        1 - static_cast<double>(x[i]) - static_cast<double>(low[i]);
    if (log_alpha > -0.5) {
      EXPECT_NEAR(loss / -std::expm1(log_alpha), 1, 2e-6) << i;
    } else {
      EXPECT_EQ(low[i], 0.0f) << i;
    }
  }
}

TEST(SoftplusDecayTest, FollowsTheFormula) {
  ExpectFollowsFormula(std::nullopt);
}

TEST(SoftplusDecayTest, FollowsTheFormulaWithALowerBound) {
  ExpectFollowsFormula(-5.0);
}

TEST(SoftplusDecayTest, HeadsMayShareWhatIsStored) {
  const PartHarness harness(
      {.config = {{"model_type", "none"}},
       .tensors = {{"attn.A_log", {DType::kF32, {1}, {-0.5f}}},
                   {"attn.dt_bias", {DType::kF32, {2}, {0.25f, -1}}}}});
  const auto shared =
      SoftplusDecay::Make(harness.builder(), 2, 2, std::nullopt, 2);
  ASSERT_TRUE(shared.ok()) << shared.status();
  std::vector<float> x = {1, 2, 1, 2};
  std::vector<float> low(x.size());
  shared->Apply(x.data(), low.data());
  EXPECT_EQ(x[0], x[2]);
  EXPECT_EQ(x[1], x[3]);
  EXPECT_NEAR(x[3], std::exp(-std::exp(-0.5) * std::log1p(std::exp(1.0))),
              1e-6);
}

TEST(SoftplusDecayTest, SaturatesWithoutLeavingItsRange) {
  // exp(200) is infinite in float32.
  const std::vector<float> A_log = {-200, 200};
  const std::vector<float> bias(kHeads * kFactors, 0.0f);
  for (const std::optional<double> bound :
       {std::optional<double>(), std::optional<double>(-5)}) {
    std::vector<float> x = {-1e4f, 0, 1e4f, -1e4f, 0, 1e4f};
    std::vector<float> low(x.size());
    MakeDecay(A_log, bias, bound).Apply(x.data(), low.data());
    for (const float alpha : x) {
      EXPECT_GE(alpha, 0.0f);
      EXPECT_LE(alpha, 1.0f);
    }
  }
}

}  // namespace
}  // namespace steadystate
