// Goal: gates become the decays that config.json asks for, accurately, and stay
// in [0, 1] where they are saturated. Method: every kind against its formula in
// double.
#include "server/model/parts/decay_gate.h"

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/part_harness.h"

namespace steadystate::decay_gate_test {
namespace {

using nlohmann::json;

constexpr size_t kD = 4, kHeads = 2, kK = 3, kV = 5;
constexpr size_t kKeys = kHeads * kK, kValues = kHeads * kV;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

// From nothing to everything, twice around zero.
std::vector<float> Gates(size_t n) {
  const float some[] = {0.5f, -1.5f, 3.0f, -8.0f, 20.0f, -60.0f, 1e30f, -1e30f};
  std::vector<float> gates(n);
  for (size_t i = 0; i < n; ++i) gates[i] = some[i % std::size(some)];
  return gates;
}

TensorContents Tensor(std::vector<size_t> shape,
                      std::vector<float> values = {}) {
  size_t count = 1;
  for (const size_t size : shape) count *= size;
  values.resize(count);
  return {.shape = std::move(shape), .values = std::move(values)};
}

// A gate for which the projections' values are given, not computed.
class GateOf {
 public:
  explicit GateOf(const json& decay)
      : harness_({.config = {{"model_type", "none"}, {"decay", decay}},
                  .tensors = AllTensors()},
                 kD),
        stack_(harness_.builder().weights, kD) {
    MixerBuilder from = harness_.builder();
    from.layer = 1;
    from.layers = 4;
    auto options = ReadDecayOptions(from.config, kHeads, nullptr);
    EXPECT_TRUE(options.ok()) << options.status();
    RowScratchPlan plan(from.scratch);
    auto gate = DecayGate::Make(from, *options, kHeads, kK, kV, stack_, plan);
    EXPECT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    harness_.Start(1);
    fused_ = Gates(std::max<size_t>(stack_.columns(), 1));
  }

  DecayGate::Decays Run(float* rest = nullptr) {
    return gate_.Run(1, fused_.data(), fused_.size(), rest, harness_.buffers());
  }
  size_t columns() const { return stack_.columns(); }
  const std::vector<double>& constants() const { return gate_.constants(); }

 private:
  static std::map<std::string, TensorContents> AllTensors() {
    return {
        {"attn.decay_proj.weight", Tensor({kHeads, kD})},
        {"attn.decay_proj.bias", Tensor({kHeads})},
        {"attn.decay_a", Tensor({kHeads}, {0.25f, -2})},
        {"attn.decay_k_proj.weight", Tensor({kKeys, kD})},
        {"attn.decay_k_proj.bias", Tensor({kKeys})},
        {"attn.decay_v_proj.weight", Tensor({kValues, kD})},
        {"attn.decay_v_proj.bias", Tensor({kValues})},
        {"attn.decay_phase_proj.weight", Tensor({kKeys, kD})},
        {"attn.decay_phase_proj.bias", Tensor({kKeys})},
    };
  }

  PartHarness harness_;
  ProjectionStack stack_;
  DecayGate gate_;
  std::vector<float> fused_;
};

// Expects heads of n numbers to be f(gate) for consecutive gates from `first`.
void ExpectDecays(const HeadRows& got, size_t first, size_t n,
                  const std::function<double(double, size_t)>& f) {
  const std::vector<float> gates = Gates(first + kHeads * n);
  for (size_t head = 0; head < kHeads; ++head) {
    for (size_t i = 0; i < n; ++i) {
      const auto gate = static_cast<double>(gates[first + head * n + i]);
      const double expected = f(gate, head);
      EXPECT_NEAR(static_cast<double>(got.At(0, head)[i]), expected,
                  2e-6 * expected + 1e-37)
          << "gate " << gate;
    }
  }
}

TEST(DecayGateTest, SigmoidIsToThePowerOfOneOverTheTemperature) {
  GateOf gate(json{{"kind", "key"}, {"temperature", 16}});
  std::vector<float> rest(kKeys);
  const auto decays = gate.Run(rest.data());
  ExpectDecays(decays.alpha, 0, kK,
               [](double y, size_t) { return std::exp(-Softplus(-y) / 16); });
  ExpectDecays({rest.data(), kKeys, kK}, 0, kK, [](double y, size_t) {
    return -std::expm1(-Softplus(-y) / 16);
  });
}

TEST(DecayGateTest, ScalarsMayDecayAsInMamba2) {
  GateOf gate(json{{"kind", "scalar"}, {"activation", "exp_softplus"}});
  ExpectDecays(gate.Run().alpha, 0, 1, [](double y, size_t head) {
    return std::exp(-Softplus(y) * std::exp(head == 0 ? 0.25 : -2));
  });
}

TEST(DecayGateTest, OuterHasGatesOfKeysThenOfValues) {
  GateOf gate(json{{"kind", "outer"}, {"activation", "exp_exp"}});
  EXPECT_EQ(gate.columns(), kKeys + kValues);
  const auto f = [](double y, size_t) { return std::exp(-std::exp(y)); };
  const auto decays = gate.Run();
  ExpectDecays(decays.alpha, 0, kK, f);
  ExpectDecays(decays.beta, kKeys, kV, f);
}

TEST(DecayGateTest, ValueHasGatesOfValuesOnly) {
  GateOf gate(json{{"kind", "value"}});
  EXPECT_EQ(gate.columns(), kValues);
  ExpectDecays(gate.Run().beta, 0, kV,
               [](double y, size_t) { return Sigmoid(y); });
}

TEST(DecayGateTest, FullHasStepsForTheRates) {
  GateOf gate(json{{"kind", "full"}});
  ExpectDecays(gate.Run().beta, 0, kV,
               [](double y, size_t) { return Softplus(y); });
}

TEST(DecayGateTest, ComplexIsTurnedByThePhase) {
  GateOf gate(json{{"kind", "key_complex"}});
  const std::vector<float> gates = Gates(2 * kKeys);
  const auto decays = gate.Run();
  for (size_t head = 0; head < kHeads; ++head) {
    for (size_t i = 0; i < kK; ++i) {
      const size_t at = head * kK + i;
      if (std::abs(gates[kKeys + at]) > 100) continue;
      const double size = Sigmoid(static_cast<double>(gates[at]));
      const auto phase = static_cast<double>(gates[kKeys + at]);
      EXPECT_NEAR(static_cast<double>(decays.alpha.At(0, head)[i]),
                  size * std::cos(phase), 1e-6 * size);
      EXPECT_NEAR(static_cast<double>(decays.beta.At(0, head)[i]),
                  size * std::sin(phase), 1e-6 * size);
    }
  }
}

// The numbers that the sources' formulas give in layer 1 of 4, for 2 heads.
TEST(DecayGateTest, ConstantsAreThoseOfTheirSources) {
  const auto expect = [](const json& values, double first, double second) {
    const GateOf gate(json{{"kind", "constant"}, {"values", values}});
    EXPECT_EQ(gate.columns(), 0u);
    ASSERT_EQ(gate.constants().size(), kHeads);
    EXPECT_NEAR(gate.constants()[0], first, 1e-7);
    EXPECT_NEAR(gate.constants()[1], second, 1e-7);
  };
  expect({0.25, 1}, 0.25, 1);
  expect("retnet", 0.96875, 0.984375);
  // Slopes (8/2) (1 - 1/4) h; 2^-4 and 2^-8 times 1 - 1/3 and a little.
  expect("lightning_fla", 1, std::exp(-3.0));
  expect("lightning_minimax", std::exp(-0.0416674), std::exp(-0.00260421));
}

TEST(DecayGateTest, SaturatedGatesGiveDecaysWithinZeroAndOne) {
  for (const char* activation : {"sigmoid", "exp_exp"}) {
    GateOf gate(json{{"kind", "outer"}, {"activation", activation}});
    const auto decays = gate.Run();
    for (size_t head = 0; head < kHeads; ++head) {
      for (size_t i = 0; i < kV; ++i) {
        EXPECT_GE(decays.beta.At(0, head)[i], 0.0f);
        EXPECT_LE(decays.beta.At(0, head)[i], 1.0f);
      }
    }
  }
}

TEST(DecayGateTest, RatesStayFiniteSoThatNoStepIsNoDecay) {
  PartHarness harness(
      {.config = {{"model_type", "none"}},
       .tensors = {{"attn.A_log", Tensor({1, 1, 3}, {0.5f, -200, 200})}}},
      kD);
  const auto rates = TakeRates(harness.builder().weights, "A_log", {1, 1, 3});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_FLOAT_EQ((*rates)[0], std::exp(0.5f));
  EXPECT_EQ((*rates)[1], 0.0f);
  EXPECT_TRUE(std::isfinite((*rates)[2]));
}

// Goal: decays are those of the formulas, and finite ones between 0 and 1 where
// gates saturate. Method: the formulas in double; extreme rates and inputs.

constexpr size_t kFactors = 3;

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

TEST(SoftplusDecayTest, StepsMayBeTakenByThemselves) {
  const std::vector<float> bias = {-4, -1, 0, 0.5f, 1, 3};
  const SoftplusDecay decay = MakeDecay({-1.5f, 0.75f}, bias, std::nullopt);
  std::vector<float> steps = {-3, 2, 0.25f, -0.5f, 30, -6};
  std::vector<float> at_once = steps;
  std::vector<float> alpha(steps.size()), low = alpha, low_at_once = alpha;
  decay.Apply(at_once.data(), low_at_once.data());
  decay.ToSteps(steps.data());
  EXPECT_NEAR(steps[1], std::log1p(std::exp(1.0)), 1e-6);
  decay.Fade(steps.data(), alpha.data(), low.data());
  EXPECT_EQ(alpha, at_once);
  EXPECT_EQ(low, low_at_once);
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
}  // namespace steadystate::decay_gate_test
