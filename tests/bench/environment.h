#ifndef STEADYSTATE_TESTS_BENCH_ENVIRONMENT_H_
#define STEADYSTATE_TESTS_BENCH_ENVIRONMENT_H_

#include "nlohmann/json.hpp"

namespace steadystate::bench {

// What figures depend on: processor, how many of them this process may use,
// instruction set of our kernels, version, and how busy the machine was before.
nlohmann::json DescribeEnvironment();

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_ENVIRONMENT_H_
