// Goal: elementwise kernels are their formulas over all of float, at any length
// and in place. Method: against the formulas in double, on every target.

#include "kernels/pointwise/activation.h"

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::activation_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double ExactSigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double ExactLogSigmoid(double x) {
  return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
}

double Exact(Activation act, double x) {
  switch (act) {
    case Activation::kIdentity:
      return x;
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSigmoid:
      return ExactSigmoid(x);
    case Activation::kLogSigmoid:
      return ExactLogSigmoid(x);
    case Activation::kSilu:
      return x * ExactSigmoid(x);
    case Activation::kSqrelu:
      return std::max(x, 0.0) * std::max(x, 0.0);
    case Activation::kGeluTanh: {
      // 1 + tanh(u) as 2 sigmoid(2u): exact where the former cancels.
      const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
      return x * ExactSigmoid(2 * u);
    }
    case Activation::kPowlu:
      if (x <= 0) return x * ExactSigmoid(x);
      return std::pow(x, 3 / (std::sqrt(x) + 1)) * ExactSigmoid(x);
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kExp:
      return std::exp(x);
    case Activation::kSoftplus:
      return x > 20 ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::kEluPlusOne:
      return x > 0 ? x + 1 : std::exp(x);
  }
  return 0;
}

// In units of the last place. An argument's rounding is magnified where a
// function is steep: e^-x by x, gelu's tail by u, powlu's power by its
// logarithm; hence the wide bounds, reached only where values are tiny.
double Tolerance(Activation act, double x) {
  switch (act) {
    case Activation::kIdentity:
    case Activation::kRelu:
      return 0.0;
    case Activation::kSqrelu:
      return 0.5;
    case Activation::kSigmoid:
    case Activation::kLogSigmoid:
      return 4.0;
    case Activation::kSilu:
      return 5.0 + (x < -80.0 ? -x : 0.0);  // sigmoid is subnormal
    case Activation::kGeluTanh:
      return 6.0 + (x < 0 ? 2.0 * std::abs(x * x * x) : 0.0);
    case Activation::kPowlu:
      return 6.0 + 12.0 * std::abs(std::log(std::abs(x) + 1e-300));
    case Activation::kGelu:
      return 6.0 + (x < 0 ? x * x : 0.0);
    case Activation::kTanh:
    case Activation::kSoftplus:
      return 4.0;
    case Activation::kExp:
    case Activation::kEluPlusOne:
      return 2.0;
  }
  return 0.0;
}

constexpr Activation kAll[] = {
    Activation::kIdentity,  Activation::kRelu,       Activation::kSigmoid,
    Activation::kSilu,      Activation::kLogSigmoid, Activation::kSqrelu,
    Activation::kGeluTanh,  Activation::kPowlu,      Activation::kGelu,
    Activation::kTanh,      Activation::kExp,        Activation::kSoftplus,
    Activation::kEluPlusOne};

TEST(ActivationTest, NamesOfTheConfigFiles) {
  EXPECT_EQ(ActivationFromName("swish"), Activation::kSilu);
  EXPECT_EQ(ActivationFromName("silu"), Activation::kSilu);
  EXPECT_EQ(ActivationFromName("relu"), Activation::kRelu);
  EXPECT_EQ(ActivationFromName("sigmoid"), Activation::kSigmoid);
  EXPECT_EQ(ActivationFromName("logsigmoid"), Activation::kLogSigmoid);
  EXPECT_EQ(ActivationFromName("sqrelu"), Activation::kSqrelu);
  EXPECT_EQ(ActivationFromName("gelu"), Activation::kGeluTanh);
  EXPECT_EQ(ActivationFromName("powlu"), Activation::kPowlu);
  EXPECT_EQ(ActivationFromName("Swish"), std::nullopt);
  EXPECT_EQ(ActivationFromName(""), std::nullopt);
}

class ActivateTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(ActivateTest);

TEST_P(ActivateTest, IsAccurateOverAllOfFloat) {
  const Floats x{std::span<const float>(ManyFiniteFloats())};
  for (const Activation act : kAll) {
    Floats y(x.size());
    Activate(act, x.size(), x.data(), y.data());
    double worst = 0;
    float worst_x = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double at = static_cast<double>(x[i]);
      const double excess =
          UlpError(y[i], Exact(act, at)) / (Tolerance(act, at) + 1e-9);
      if (!(excess <= worst)) {
        worst = excess;
        worst_x = x[i];
      }
    }
    EXPECT_LE(worst, 1.0) << "activation " << static_cast<int>(act)
                          << " at x = " << worst_x;
  }
}

TEST_P(ActivateTest, PropagatesNanAndSaturatesAtInfinity) {
  for (const Activation act : kAll) {
    float y = 0;
    Activate(act, 1, &kNan, &y);
    EXPECT_TRUE(std::isnan(y)) << static_cast<int>(act);
  }
  const float x[] = {kInf, -kInf};
  float y[2];
  Activate(Activation::kSigmoid, 2, x, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 0.0f);
  Activate(Activation::kLogSigmoid, 2, x, y);
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_EQ(y[1], -kInf);
}

TEST_P(ActivateTest, DependsOnTheElementOnlyForEveryLengthAndInPlace) {
  const uint64_t seed = 11;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const Activation act : kAll) {
    for (size_t n = 0; n <= 35; ++n) {
      const Floats x = numbers.Uniform(n, -9.0f, 9.0f);
      Floats y(x);
      Activate(act, n, y.data(), y.data());
      for (size_t i = 0; i < n; ++i) {
        float alone = 0;
        Activate(act, 1, x.data() + i, &alone);
        EXPECT_TRUE(SameBits(y[i], alone)) << n << " " << i;
      }
    }
  }
}

TEST_P(ActivateTest, GateMultipliesAndMayBeInPlace) {
  const uint64_t seed = 12;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const Activation act : kAll) {
    for (size_t n = 1; n <= 35; ++n) {
      const Floats gate = numbers.Uniform(n, -5.0f, 5.0f);
      const Floats up = numbers.Uniform(n, -2.0f, 2.0f);
      Floats activated(n);
      Activate(act, n, gate.data(), activated.data());
      Floats over_gate(gate);
      ActivateAndMultiply(act, n, over_gate.data(), up.data(),
                          over_gate.data());
      Floats over_up(up);
      ActivateAndMultiply(act, n, gate.data(), over_up.data(), over_up.data());
      for (size_t i = 0; i < n; ++i) {
        EXPECT_TRUE(SameBits(over_gate[i], activated[i] * up[i]));
        EXPECT_TRUE(SameBits(over_up[i], activated[i] * up[i]));
      }
    }
  }
}

TEST_P(ActivateTest, ExponentialsSaturateAtInfinity) {
  const float x[] = {kInf, -kInf};
  float y[2];
  Activate(Activation::kTanh, 2, x, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], -1.0f);
  Activate(Activation::kSoftplus, 2, x, y);
  EXPECT_EQ(y[0], kInf);
  EXPECT_EQ(y[1], 0.0f);
  for (const Activation act : {Activation::kExp, Activation::kEluPlusOne}) {
    Activate(act, 2, x, y);
    EXPECT_EQ(y[0], kInf);
    EXPECT_EQ(y[1], 0.0f);
  }
}

// A decay of e^0 must not eat a state away.
TEST_P(ActivateTest, ExpOfZeroIsExactlyOne) {
  const float x[] = {0.0f, -0.0f};
  float y[2];
  Activate(Activation::kExp, 2, x, y);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], 1.0f);
}

TEST_P(ActivateTest, SoftCapBoundsAndIsAccurate) {
  const Floats x{std::span<const float>(ManyFiniteFloats())};
  for (const float cap : {15.0f, 30.0f, 0.3f}) {
    Floats y(x);
    SoftCap(x.size(), cap, y.data(), y.data());
    const double bound = static_cast<double>(cap);
    for (size_t i = 0; i < x.size(); ++i) {
      const double at = static_cast<double>(x[i]);
      EXPECT_LE(std::abs(y[i]), cap);
      // What is subnormal once divided by the cap keeps fewer digits.
      EXPECT_NEAR(static_cast<double>(y[i]), bound * std::tanh(at / bound),
                  6 * 6e-8 * std::abs(at) + 1e-43)
          << x[i];
    }
  }
}

TEST_P(ActivateTest, AddToAddsForEveryLength) {
  for (size_t n = 0; n <= 35; ++n) {
    const Floats x = Numbers(n).Uniform(n, -1.0f, 1.0f);
    Floats y = Numbers(n + 100).Uniform(n, -1.0f, 1.0f);
    const Floats before(y);
    AddTo(n, x.data(), y.data());
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(y[i], before[i] + x[i]);
  }
}

TEST_P(ActivateTest, AllFiniteFindsOneBadElementAnywhere) {
  EXPECT_TRUE(AllFinite(0, nullptr));
  for (size_t n = 1; n <= 35; ++n) {
    Floats x = Numbers(n).Uniform(n, -1.0f, 1.0f);
    x[n - 1] = std::numeric_limits<float>::max();
    EXPECT_TRUE(AllFinite(n, x.data()));
    for (size_t i = 0; i < n; ++i) {
      for (const float bad : {kNan, kInf, -kInf, -kNan}) {
        Floats spoiled(x);
        spoiled[i] = bad;
        EXPECT_FALSE(AllFinite(n, spoiled.data())) << n << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace steadystate::activation_test
