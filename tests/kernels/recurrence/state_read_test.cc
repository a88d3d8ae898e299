// Goal: reading a state gives what a step that left it so had read, to the bit.
// Method: steps of every form that has a float state, on every target.

#include "kernels/recurrence/state_read.h"

#include "gtest/gtest.h"
#include "hwy/tests/hwy_gtest.h"
#include "kernels/recurrence/complex_key_decay.h"
#include "kernels/recurrence/key_decay.h"
#include "kernels/recurrence/outer_decay.h"
#include "tests/kernels/numbers.h"

namespace steadystate {
namespace {

class StateReadTest : public hwy::TestWithParamTarget {};
HWY_TARGET_INSTANTIATE_TEST_SUITE_P(StateReadTest);

void ExpectSame(size_t V, const Floats& found, const Floats& expected) {
  for (size_t j = 0; j < V; ++j) {
    EXPECT_TRUE(SameBits(found[j], expected[j])) << V << " " << j;
  }
}

TEST_P(StateReadTest, ReadsWhatStepsRead) {
  const uint64_t seed = 91;
  SCOPED_TRACE(seed);
  Numbers numbers(seed);
  for (const size_t V : {1u, 5u, 16u, 37u, 64u, 128u, 300u}) {
    const size_t K = 1 + numbers.Below(20);
    const Floats decay = numbers.Uniform(K, 0.0f, 1.0f);
    const Floats phase = numbers.Uniform(K, -0.5f, 0.5f);
    const Floats of_values = numbers.Uniform(V, 0.0f, 1.0f);
    const Floats q = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats k = numbers.Uniform(K, -1.0f, 1.0f);
    const Floats v = numbers.Uniform(V, -1.0f, 1.0f);
    Floats state = numbers.Uniform(2 * K * V, -1.0f, 1.0f);
    Floats stepped(V);
    Floats read(V);
    KeyDecayStep(K, V, 0.25f, decay.data(), q.data(), k.data(), v.data(),
                 state.data(), stepped.data());
    ReadState(K, V, 0.25f, q.data(), state.data(), read.data());
    ExpectSame(V, read, stepped);
    OuterDecayStep(K, V, 0.25f, {decay.data()}, {of_values.data()}, q.data(),
                   k.data(), v.data(), state.data(), stepped.data());
    ReadState(K, V, 0.25f, q.data(), state.data(), read.data());
    ExpectSame(V, read, stepped);
    ComplexKeyDecayStep(K, V, 0.25f, {decay.data()}, {phase.data()}, q.data(),
                        k.data(), v.data(), state.data(), stepped.data());
    ReadState(K, V, 0.25f, q.data(), state.data(), read.data());
    ExpectSame(V, read, stepped);
  }
}

}  // namespace
}  // namespace steadystate
