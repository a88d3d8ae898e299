// Goal: scheduler, sessions, keeper, log and store together are what a session
// is without any of them, whatever happens at once, fails or is killed.
// Method: README.md. STEADYSTATE_SIMULATED_OPERATIONS says how many operations
// there are for each seed, STEADYSTATE_SIMULATION_SEED takes that one alone.
#include "tests/server/engine/simulation/simulation.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/environment_number.h"

namespace steadystate::simulation_test {
namespace {

// ThreadSanitizer makes all of it some ten times slower.
#ifdef __SANITIZE_THREAD__
constexpr uint64_t kOperations = 500;
#else
constexpr uint64_t kOperations = 2500;
#endif

std::vector<uint64_t> Seeds() {
  const uint64_t seed = NumberFromEnvironment("STEADYSTATE_SIMULATION_SEED", 0);
  if (seed != 0) return {seed};
  return {1, 2, 3, 4};
}

class SimulationTest : public testing::TestWithParam<uint64_t> {};

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationTest, testing::ValuesIn(Seeds()));

TEST_P(SimulationTest, SessionsAreWhatTheyShouldBe) {
  Simulation(GetParam(), NumberFromEnvironment(
                             "STEADYSTATE_SIMULATED_OPERATIONS", kOperations))
      .Run();
}

}  // namespace
}  // namespace steadystate::simulation_test
