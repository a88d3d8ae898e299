#ifndef STEADYSTATE_TESTS_BENCH_STEP_AND_WAIT_H_
#define STEADYSTATE_TESTS_BENCH_STEP_AND_WAIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "tests/bench/stopwatch.h"

namespace steadystate::bench {

// Carries out a step. -> when the compute thread answered it: without the time
// that it takes to wake who waits for it.
absl::StatusOr<BenchClock::time_point> StepAndWait(Engine& engine,
                                                   StepRequest request);

// Carries out work.
absl::Status WorkAndWait(Engine& engine, WorkRequest request);

}  // namespace steadystate::bench

#endif  // STEADYSTATE_TESTS_BENCH_STEP_AND_WAIT_H_
