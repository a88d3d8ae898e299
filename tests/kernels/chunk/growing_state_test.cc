// Goal: what chunks read of a state in double is that state rounded, and what
// they add is added in double. Method: element by element, at any length.

#include "kernels/chunk/growing_state.h"

#include <vector>

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

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
}  // namespace steadystate
