// Goal: the step of a growing sum is its formula, in double, at any size, and
// a read gives the bits of a step. Method: against plain loops, on every
// target.
// What chunks read of a state in double is that state rounded, and what they
// add is added in double, element by element, at any length.

#include "kernels/recurrence/growing_sum.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate::growing_sum_test {
namespace {

class GrowingSumTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(GrowingSumTest);

struct Head {
  size_t K, V;
  std::vector<double> state = std::vector<double>(K * V, 0.0);
};

// S <- diag(decay) S + k v^T; returns scale S^T q.
std::vector<double> Exact(Head& head, double scale,
                          const std::vector<double>* decay, const Floats& q,
                          const Floats& k, const Floats& v) {
  std::vector<double> o(head.V, 0.0);
  for (size_t i = 0; i < head.K; ++i) {
    const double a = decay == nullptr ? 1.0 : (*decay)[i];
    for (size_t j = 0; j < head.V; ++j) {
      double& s = head.state[i * head.V + j];
      s = a * s + static_cast<double>(k[i]) * static_cast<double>(v[j]);
      o[j] += scale * static_cast<double>(q[i]) * s;
    }
  }
  return o;
}

void Compare(size_t K, size_t V, bool decays, Numbers& numbers) {
  SCOPED_TRACE(testing::Message() << "K " << K << " V " << V);
  Head exact{K, V};
  std::vector<double> state(K * V, 0.0);
  Floats o(V), read(V);
  for (int t = 0; t < 5; ++t) {
    const Floats factors = numbers.Uniform(K, 0.0f, 1.0f);
    const std::vector<double> decay(factors.begin(), factors.end());
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    GrowingSumStep({.K = K,
                    .V = V,
                    .scale = 0.125f,
                    .q = q.data(),
                    .k = k.data(),
                    .v = v.data(),
                    .o = o.data()},
                   decays ? decay.data() : nullptr, state.data());
    const std::vector<double> expected =
        Exact(exact, 0.125, decays ? &decay : nullptr, q, k, v);
    GrowingSumRead(
        {.K = K, .V = V, .scale = 0.125f, .q = q.data(), .o = read.data()},
        state.data());
    EXPECT_TRUE(std::equal(read.begin(), read.end(), o.begin()));
    for (size_t j = 0; j < V; ++j) {
      EXPECT_LE(UlpError(o[j], expected[j]), 0.51) << j;
    }
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_NEAR(state[i], exact.state[i], 1e-14);
    }
  }
}

TEST_P(GrowingSumTest, MatchesTheFormulaAtAnySize) {
  const uint64_t seed = 5;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t K : std::vector<size_t>{1, 5, 16}) {
    for (const size_t V :
         std::vector<size_t>{1, 2, 3, 5, 8, 11, 16, 31, 32, 64, 100}) {
      Compare(K, V, false, numbers);
      Compare(K, V, true, numbers);
    }
  }
}

TEST_P(GrowingSumTest, EqualIncrementsDoNotDrift) {
  double state = 0;
  float o = 0;
  const float one = 1.0f;
  const float tenth = 0.1f;
  constexpr int kTokens = 1000000;
  for (int t = 0; t < kTokens; ++t) {
    GrowingSumStep({.K = 1, .V = 1, .q = &one, .k = &one, .v = &tenth, .o = &o},
                   nullptr, &state);
  }
  const double exact = kTokens * static_cast<double>(tenth);
  EXPECT_LE(std::abs(static_cast<double>(o) - exact) / exact, 1e-7);
}

class GrowingStateTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(GrowingStateTest);

TEST_P(GrowingStateTest, IsRoundedToReadAndAddedToInDouble) {
  const uint64_t seed = 94;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (size_t n = 1; n <= 35; ++n) {
    std::vector<double> state(n);
    for (double& s : state) s = 1e6 + static_cast<double>(numbers.Below(1000));
    const std::vector<double> before = state;
    Floats narrow(n);
    NarrowState(n, state.data(), narrow.data());
    const Floats added = numbers.Uniform(n, -1.0f, 1.0f);
    AddToState(n, 0.75, added.data(), state.data());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(narrow[i], static_cast<float>(before[i]));
      EXPECT_EQ(state[i], 0.75 * before[i] + static_cast<double>(added[i]));
    }
  }
}

}  // namespace
}  // namespace steadystate::growing_sum_test
