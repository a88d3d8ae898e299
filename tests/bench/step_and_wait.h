#ifndef STEADYSTATE_TESTS_BENCH_STEP_AND_WAIT_H_
#define STEADYSTATE_TESTS_BENCH_STEP_AND_WAIT_H_

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {

// A step's answer, and when the compute thread gave it: without the time that
// it takes to wake who waits for it.
struct StepDone {
  StepResult result;
  BenchClock::time_point time;
};

absl::StatusOr<StepDone> StepAndWait(Engine& engine, StepRequest request);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_STEP_AND_WAIT_H_
