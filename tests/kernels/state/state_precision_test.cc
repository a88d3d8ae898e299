// Goal: what a state in 16 bits costs, mechanism by mechanism: the table in
// server/model/precision.md, on which rests which recurrences may be kept in
// bf16. Method: one head over 10^5 random tokens, its matrix packed after every
// one, beside the same kernel on a float32 matrix; the relative RMS error of
// the last tenth's outputs. Keys and values are of mean zero, which is the hard
// case: errors add up as the state does. Prints the errors.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/pointwise/decay.h"
#include "kernels/recurrence/decay_steps.h"
#include "kernels/recurrence/rank_one_decay.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/state/packed_matrix.h"

namespace steadystate::state_precision_test {
namespace {

// Sanitizers, which make all of it some ten times slower, look at one token as
// at the next.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kTokens = 5000;
#else
constexpr uint64_t kTokens = 100000;
#endif
constexpr size_t kK = 16;
constexpr size_t kV = 32;

// Floats would take new pages for each of millions of tokens: what kernels do
// at the ends of their inputs is for their own tests to say.
using Values = std::vector<float>;

Values Uniform(Numbers& numbers, size_t n, float low, float high) {
  Values values(n);
  for (float& value : values) value = numbers.Uniform(low, high);
  return values;
}

// What a token brings, f32[kK] and f32[kV] each.
struct Token {
  Values q, k, v;
};

struct Mechanism {
  std::string name;
  size_t rows;  // of the matrix
  // Draws what is particular to it and returns one step on a state.
  std::function<std::function<void(float* state, float* o)>(Token, Numbers&)>
      draw;
  double bf16;  // bounds of the errors
  double int16;
};

// 1 - 2^-5 to 1 - 2^-12, spread evenly over n channels.
Values SlowDecays(size_t n) {
  Values decays(n);
  for (size_t i = 0; i < n; ++i) {
    decays[i] = 1 - std::exp2(-5 - 7 * (static_cast<float>(i) + 0.5f) /
                                       static_cast<float>(n));
  }
  return decays;
}

Values Unit(Values x) {
  float squares = 0;
  for (const float value : x) squares += value * value;
  for (float& value : x) value /= std::sqrt(squares);
  return x;
}

auto KeyDecay(Token token, Values decay) {
  return [token, decay](float* state, float* o) {
    KeyDecayStep({.K = kK,
                  .V = kV,
                  .q = token.q.data(),
                  .k = token.k.data(),
                  .v = token.v.data(),
                  .o = o},
                 {decay.data()}, state);
  };
}

// All of one decay.
Mechanism ScalarDecay(const std::string& name, float decay, double bf16,
                      double int16) {
  return {name, kK,
          [decay](Token token, Numbers&) {
            Values decays(kK);
            for (float& value : decays) value = decay;
            return KeyDecay(token, decays);
          },
          bf16, int16};
}

Mechanism DeltaRule(const std::string& name, Values decay, float beta,
                    double bf16, double int16) {
  return {name, kK,
          [decay, beta](Token token, Numbers&) {
            const Values k = Unit(token.k);
            Values a(kK), b(kK), written(kK);
            for (size_t i = 0; i < kK; ++i) {
              a[i] = decay[i] * k[i];
              written[i] = beta * k[i];
              b[i] = -written[i];
            }
            return [=](float* state, float* o) {
              RankOneDecayStep({.K = kK,
                                .V = kV,
                                .q = token.q.data(),
                                .k = written.data(),
                                .v = token.v.data(),
                                .o = o},
                               {decay.data()}, {a.data(), b.data()}, state);
            };
          },
          bf16, int16};
}

Values Ones(size_t n) {
  Values ones(n);
  for (float& value : ones) value = 1;
  return ones;
}

// Gates sigma(x)^(1/16) of x within 2 of a mean.
Mechanism SigmoidGates(const std::string& name, float mean, double bf16,
                       double int16) {
  return {name, kK,
          [mean](Token token, Numbers& numbers) {
            Values decay = Uniform(numbers, kK, mean - 2, mean + 2);
            for (float& x : decay) {
              x = std::pow(1 / (1 + std::exp(-x)), 1.0f / 16);
            }
            return KeyDecay(token, decay);
          },
          bf16, int16};
}

// Gates sigma(x)^(1/16) of one x a channel, spread evenly.
Mechanism SigmoidBiases(const std::string& name, float least, float most,
                        double bf16, double int16) {
  return {name, kK,
          [least, most](Token token, Numbers&) {
            Values log_decay(kK), decay(kK), low(kK);
            for (size_t i = 0; i < kK; ++i) {
              log_decay[i] = least + (most - least) * static_cast<float>(i) /
                                         static_cast<float>(kK - 1);
            }
            LogSigmoidLogDecay(kK, log_decay.data(), 16, -HUGE_VALF,
                               log_decay.data());
            SplitDecay(kK, log_decay.data(), decay.data(), low.data());
            return [token, decay, low](float* state, float* o) {
              KeyDecayStep({.K = kK,
                            .V = kV,
                            .q = token.q.data(),
                            .k = token.k.data(),
                            .v = token.v.data(),
                            .o = o},
                           {decay.data(), low.data()}, state);
            };
          },
          bf16, int16};
}

// Steps of 0.001 to 0.1 per channel, rates of 1 to 16 per key row.
Mechanism MambaOne(double bf16, double int16) {
  return {"Mamba: steps 0.001 to 0.1", kK,
          [](Token token, Numbers&) {
            Values rate(kK * kV), step(kV), v = token.v;
            for (size_t j = 0; j < kV; ++j) {
              step[j] = 0.001f * std::exp2(static_cast<float>(j) / kV * 6.6f);
              v[j] *= step[j];
              for (size_t i = 0; i < kK; ++i) {
                rate[i * kV + j] = static_cast<float>(i + 1);
              }
            }
            return [=](float* state, float* o) {
              FullDecayStep({.K = kK,
                             .V = kV,
                             .q = token.q.data(),
                             .k = token.k.data(),
                             .v = v.data(),
                             .o = o},
                            rate.data(), step.data(), state);
            };
          },
          bf16, int16};
}

// One step for all channels of a head, of rate 1: the slowest of Mamba-2.
Mechanism MambaTwo(double bf16, double int16) {
  return {"Mamba-2: steps 0.001 to 0.1", kK,
          [](Token token, Numbers& numbers) {
            const float step = 0.001f * std::exp2(numbers.Uniform(0, 6.6f));
            for (float& k : token.k) k *= step;
            Values decay(kK);
            for (float& value : decay) value = std::exp(-step);
            return KeyDecay(token, decay);
          },
          bf16, int16};
}

Mechanism Hgrn(double bf16, double int16) {
  return {
      "HGRN: 1 - 2^-5 to 1 - 2^-12", 1,
      [](Token token, Numbers&) {
        const Values decay = SlowDecays(kV);
        Values v = token.v;
        for (size_t j = 0; j < kV; ++j) v[j] *= 1 - decay[j];
        return [=](float* state, float* o) {
          const float one = 1;
          OuterDecayStep(
              {.K = 1, .V = kV, .q = &one, .k = &one, .v = v.data(), .o = o},
              {&one}, {decay.data()}, state);
        };
      },
      bf16, int16};
}

Mechanism Rwkv6(double bf16, double int16) {
  return {"RWKV-6: 1 - 2^-5 to 1 - 2^-12", kK,
          [](Token token, Numbers&) {
            return [token, decay = SlowDecays(kK)](float* state, float* o) {
              BonusDecayStep({.K = kK,
                              .V = kV,
                              .q = token.q.data(),
                              .k = token.k.data(),
                              .v = token.v.data(),
                              .o = o},
                             {decay.data()}, token.q.data(), state);
            };
          },
          bf16, int16};
}

Mechanism Rwkv7(double bf16, double int16) {
  return {"RWKV-7: 1 - 2^-5 to 1 - 2^-12", kK,
          [](Token token, Numbers& numbers) {
            const Values a = Unit(Uniform(numbers, kK, -1, 1));
            Values b(kK);
            for (size_t i = 0; i < kK; ++i) {
              b[i] = -a[i] * numbers.Uniform(0, 1);
            }
            return [=, decay = SlowDecays(kK)](float* state, float* o) {
              RankOneDecayStep({.K = kK,
                                .V = kV,
                                .q = token.q.data(),
                                .k = token.k.data(),
                                .v = token.v.data(),
                                .o = o},
                               {decay.data()}, {a.data(), b.data()}, state);
            };
          },
          bf16, int16};
}

Mechanism GateLoop(double bf16, double int16) {
  return {"GateLoop: 1 - 2^-5 to 1 - 2^-12", 2 * kK,
          [](Token token, Numbers&) {
            Values real = SlowDecays(kK), imaginary = SlowDecays(kK);
            for (size_t i = 0; i < kK; ++i) {
              real[i] *= std::cos(0.1f * static_cast<float>(i));
              imaginary[i] *= std::sin(0.1f * static_cast<float>(i));
            }
            return [=](float* state, float* o) {
              ComplexKeyDecayStep({.K = kK,
                                   .V = kV,
                                   .q = token.q.data(),
                                   .k = token.k.data(),
                                   .v = token.v.data(),
                                   .o = o},
                                  {real.data()}, {imaginary.data()}, state);
            };
          },
          bf16, int16};
}

// A state that is kept in 16 bits, and how far its outputs are from those of a
// float32 one.
class PackedState {
 public:
  PackedState(PackedMatrix::Type type, size_t rows)
      : packed_(type, rows, kV), opened_(rows * kV), o_(kV) {}

  // One step; its outputs are not judged without the expected ones, f32[kV].
  void Step(const std::function<void(float* state, float* o)>& step,
            uint64_t token, const Floats* expected) {
    packed_.UnpackTo(opened_.data());
    step(opened_.data(), o_.data());
    packed_.Pack(opened_.data(), token + 1);
    if (expected == nullptr) return;
    for (size_t j = 0; j < kV; ++j) {
      errors_ += std::pow(static_cast<double>(o_[j] - (*expected)[j]), 2);
      sizes_ += std::pow(static_cast<double>((*expected)[j]), 2);
    }
  }

  // The relative RMS error of the outputs that were judged.
  double Error() const { return std::sqrt(errors_ / sizes_); }

 private:
  PackedMatrix packed_;
  Floats opened_, o_;
  double errors_ = 0, sizes_ = 0;
};

class StatePrecisionTest : public testing::TestWithParam<Mechanism> {};

INSTANTIATE_TEST_SUITE_P(
    Mechanisms, StatePrecisionTest,
    testing::Values(
        SigmoidGates("GLA: gates of inputs -2 to 2", 0, 0.01, 2e-4),
        SigmoidGates("GLA: gates of inputs 1 to 5", 3, 0.03, 6e-4),
        SigmoidBiases("GLA: biases 4 to 12", 4, 12, 0.7, 2e-2),
        MambaOne(0.01, 6e-4), MambaTwo(0.02, 4e-4),
        ScalarDecay("RetNet: 1 - 2^-5", 1 - 0x1p-5f, 0.02, 3e-4),
        ScalarDecay("RetNet: 1 - 2^-12", 1 - 0x1p-12f, 0.2, 4e-3),
        Hgrn(0.04, 2e-3), Rwkv6(0.1, 3e-3), Rwkv7(0.04, 1e-3),
        GateLoop(0.1, 3e-3),
        DeltaRule("delta rule: beta 1/2", Ones(kK), 0.5f, 0.04, 1e-3),
        DeltaRule("delta rule: beta 1/20", Ones(kK), 0.05f, 0.1, 3e-3),
        DeltaRule("gated delta rule: 1 - 2^-5 to 1 - 2^-12", SlowDecays(kK),
                  0.5f, 0.04, 1e-3)),
    [](const auto& instance) { return std::to_string(instance.index); });

TEST_P(StatePrecisionTest, StaysWithinItsBoundOver100000Tokens) {
  const Mechanism& mechanism = GetParam();
  Numbers numbers(71);
  Floats exact(mechanism.rows * kV), expected(kV);
  PackedState bf16(PackedMatrix::Type::kBf16, mechanism.rows);
  PackedState int16(PackedMatrix::Type::kInt16, mechanism.rows);
  for (uint64_t t = 0; t < kTokens; ++t) {
    const auto step = mechanism.draw(
        {Uniform(numbers, kK, -1, 1), Uniform(numbers, kK, -1, 1),
         Uniform(numbers, kV, -1, 1)},
        numbers);
    step(exact.data(), expected.data());
    const Floats* judged = t >= kTokens / 10 * 9 ? &expected : nullptr;
    bf16.Step(step, t, judged);
    int16.Step(step, t, judged);
  }
  std::printf("| %s | %.1e | %.1e |\n", mechanism.name.c_str(), bf16.Error(),
              int16.Error());
  EXPECT_LE(bf16.Error(), mechanism.bf16);
  EXPECT_LE(int16.Error(), mechanism.int16);
}

}  // namespace
}  // namespace steadystate::state_precision_test
