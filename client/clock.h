#ifndef STEADYSTATE_CLIENT_CLOCK_H_
#define STEADYSTATE_CLIENT_CLOCK_H_

#include <chrono>

#include "absl/time/time.h"
#include "grpc/support/time.h"

namespace steadystate::client {

// Durations and waits go by a clock that nobody sets.
using SteadyClock = std::chrono::steady_clock;
using SteadyTime = SteadyClock::time_point;

// A deadline for gRPC, `timeout` from now.
inline gpr_timespec DeadlineIn(absl::Duration timeout) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLOCK_H_
