// Goal: decays and what they leave are accurate over all of float, and stay in
// [0, 1] where gates are saturated. Method: the formulas in double, on every
// target.
#include "kernels/pointwise/decay.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::decay_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

class DecayTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(DecayTest);

TEST_P(DecayTest, FlooredSigmoidAndItsRestAreAccurate) {
  const Floats a{std::span<const float>(ManyFiniteFloats())};
  const size_t n = a.size();
  for (const float floor : {0.0f, 0.25f, 0.999f, 1.0f}) {
    Floats floors(n);
    for (float& value : floors) value = floor;
    Floats decay(a);
    Floats rest(n);
    FlooredSigmoidDecay(n, decay.data(), floors.data(), decay.data(),
                        rest.data());
    const double room = 1.0 - static_cast<double>(floor);
    for (size_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(a[i]);
      const double exact = static_cast<double>(floor) + room * Sigmoid(x);
      EXPECT_LE(UlpError(decay[i], exact), 5.0) << a[i];
      EXPECT_LE(UlpError(rest[i], room * Sigmoid(-x)), 5.0) << a[i];
      EXPECT_GE(decay[i], floor);
      EXPECT_LE(decay[i], 1.0f);
    }
    Floats low(rest);
    LackOfDecay(n, decay.data(), low.data(), low.data());
    for (size_t i = 0; i < n; ++i) {
      const double loss = room * Sigmoid(-static_cast<double>(a[i]));
      if (decay[i] < 0.5f) {
        EXPECT_EQ(low[i], 0.0f) << a[i];
      } else {
        EXPECT_NEAR(
            1 - static_cast<double>(decay[i]) - static_cast<double>(low[i]),
            loss, 6e-7 * loss + 1e-44)
            << a[i];
      }
    }
  }
}

TEST_P(DecayTest, RestOfLogIsAccurateWhereTheDecayIsNearOneToo) {
  const Floats x{std::span<const float>(ManyFiniteFloats())};
  for (size_t i = 0; i < x.size(); ++i) {
    const float log_decay = -std::abs(x[i]);
    float rest = 0;
    RestOfLogDecay(1, &log_decay, &rest);
    const double exact = -std::expm1(static_cast<double>(log_decay));
    EXPECT_LE(UlpError(rest, exact), 4.0) << log_decay;
    EXPECT_GE(rest, 0.0f);
    EXPECT_LE(rest, 1.0f);
  }
}

TEST_P(DecayTest, SplitIsAccurateInWhatADecayLeavesOfOne) {
  const Floats x{std::span<const float>(ManyFiniteFloats())};
  const size_t n = x.size();
  Floats log_decay(n);
  for (size_t i = 0; i < n; ++i) log_decay[i] = -std::abs(x[i]);
  Floats decay(log_decay);
  Floats low(n);
  SplitDecay(n, decay.data(), decay.data(), low.data());
  for (size_t i = 0; i < n; ++i) {
    const auto log = static_cast<double>(log_decay[i]);
    EXPECT_LE(UlpError(decay[i], std::exp(log)), 2.0) << log;
    const double lost = 1 - static_cast<double>(decay[i]);
    const double exact = -std::expm1(log);
    if (log > -0.5) {
      EXPECT_NEAR(lost - static_cast<double>(low[i]), exact, 5e-7 * exact)
          << log;
      // The first alone is the nearest float.
      EXPECT_LE(std::abs(low[i]), 3e-8f) << log;
    } else {
      EXPECT_EQ(low[i], 0.0f) << log;
    }
  }
}

TEST_P(DecayTest, SplitSaturatesWithoutNanAndKeepsNan) {
  const float log_decay[] = {-kInf, 0.0f, kNan};
  float decay[3];
  float low[3];
  SplitDecay(3, log_decay, decay, low);
  EXPECT_EQ(decay[0], 0.0f);
  EXPECT_EQ(decay[1], 1.0f);
  EXPECT_TRUE(std::isnan(decay[2]));
  for (const float value : low) EXPECT_EQ(value, 0.0f);
}

TEST_P(DecayTest, LogOfLogSigmoidIsAccurateAndBounded) {
  const Floats a{std::span<const float>(ManyFiniteFloats())};
  Floats log_decay(a);
  LogSigmoidLogDecay(a.size(), a.data(), 16.0f, -2.0f, log_decay.data());
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = static_cast<double>(a[i]);
    const double log_sigmoid =
        std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
    const double exact = std::max(log_sigmoid / 16, -2.0);
    EXPECT_LE(UlpError(log_decay[i], exact), 5.0) << a[i];
  }
  const float edges[] = {-kInf, kInf, kNan};
  float of_edges[3];
  LogSigmoidLogDecay(3, edges, 16.0f, -2.0f, of_edges);
  EXPECT_EQ(of_edges[0], -2.0f);
  EXPECT_EQ(of_edges[1], 0.0f);
  EXPECT_TRUE(std::isnan(of_edges[2]));
}

TEST_P(DecayTest, GoldenLogAlphaOfGla) {
  const float a[] = {-2.0f, 0.0f, 3.0f};
  const double golden[] = {-0.132933, -0.043322, -0.003037};
  float log_alpha[3];
  LogSigmoidLogDecay(3, a, 16.0f, -HUGE_VALF, log_alpha);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(static_cast<double>(log_alpha[i]), golden[i], 6e-7);
  }
}

TEST(PolarDecayTest, TurnsSizesByPhases) {
  const uint64_t seed = 31;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const float range : {1.0f, 50.0f, 3e4f}) {
    const size_t n = 4000;
    const Floats log_size = numbers.Uniform(n, -9.0f, 0.0f);
    const Floats phase = numbers.Uniform(n, -range, range);
    Floats re(log_size);
    Floats im(phase);
    Floats re_low(n);
    Floats im_low(n);
    PolarDecay(n, re.data(), im.data(), re.data(), re_low.data(), im.data(),
               im_low.data());
    for (size_t i = 0; i < n; ++i) {
      const double r = std::exp(static_cast<double>(log_size[i]));
      const auto angle = static_cast<double>(phase[i]);
      const auto of = [](float high, float low) {
        return static_cast<double>(high) + static_cast<double>(low);
      };
      EXPECT_NEAR(static_cast<double>(re[i]), r * std::cos(angle), 6e-8 * r);
      EXPECT_NEAR(of(re[i], re_low[i]), r * std::cos(angle), 4e-15 * r);
      EXPECT_NEAR(of(im[i], im_low[i]), r * std::sin(angle), 4e-15 * r);
    }
  }
}

TEST(PolarDecayTest, NeverGrowsAState) {
  for (const float phase : ManyFiniteFloats()) {
    const float zero = 0;
    float re = 0;
    float im = 0;
    float re_low = 0;
    float im_low = 0;
    PolarDecay(1, &zero, &phase, &re, &re_low, &im, &im_low);
    EXPECT_LE(re * re + im * im, 1.000001f) << phase;
  }
}

TEST_P(DecayTest, DependsOnTheElementOnlyForEveryLength) {
  const uint64_t seed = 32;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 0; n <= 35; ++n) {
    const Floats a = numbers.Uniform(n, -9.0f, 9.0f);
    const Floats b = numbers.Uniform(n, 0.0f, 1.0f);
    const Floats log_decay = numbers.Uniform(n, -9.0f, 0.0f);
    constexpr size_t kOutputs = 8;
    std::vector<Floats> y(kOutputs, Floats(n));
    FlooredSigmoidDecay(n, a.data(), b.data(), y[0].data(), y[1].data());
    PolarDecay(n, log_decay.data(), a.data(), y[2].data(), y[3].data(),
               y[4].data(), y[5].data());
    RestOfLogDecay(n, log_decay.data(), y[6].data());
    LackOfDecay(n, y[0].data(), y[1].data(), y[7].data());
    for (size_t i = 0; i < n; ++i) {
      float z[kOutputs];
      FlooredSigmoidDecay(1, a.data() + i, b.data() + i, &z[0], &z[1]);
      PolarDecay(1, log_decay.data() + i, a.data() + i, &z[2], &z[3], &z[4],
                 &z[5]);
      RestOfLogDecay(1, log_decay.data() + i, &z[6]);
      LackOfDecay(1, &z[0], &z[1], &z[7]);
      for (size_t j = 0; j < kOutputs; ++j) {
        EXPECT_TRUE(SameBits(y[j][i], z[j])) << n << " " << i << " " << j;
      }
    }
  }
}

TEST_P(DecayTest, SaturatesWithoutNanAndKeepsNan) {
  const float a[] = {-kInf, kInf, kNan};
  const float floor[] = {0.25f, 0.25f, 0.25f};
  float decay[3];
  float rest[3];
  FlooredSigmoidDecay(3, a, floor, decay, rest);
  EXPECT_EQ(decay[0], 0.25f);
  EXPECT_EQ(rest[0], 0.75f);
  EXPECT_EQ(decay[1], 1.0f);
  EXPECT_EQ(rest[1], 0.0f);
  EXPECT_TRUE(std::isnan(decay[2]) && std::isnan(rest[2]));
  const float log_decay[] = {-kInf, 0.0f, kNan};
  RestOfLogDecay(3, log_decay, rest);
  EXPECT_EQ(rest[0], 1.0f);
  EXPECT_EQ(rest[1], 0.0f);
  EXPECT_TRUE(std::isnan(rest[2]));
  const float log_size[] = {-kInf, kNan, 0.0f};
  float low[2][3];
  PolarDecay(3, log_size, a, decay, low[0], rest, low[1]);
  EXPECT_EQ(decay[0], 0.0f);
  EXPECT_TRUE(std::isnan(decay[1]) && std::isnan(decay[2]));
}

}  // namespace
}  // namespace steadystate::decay_test
