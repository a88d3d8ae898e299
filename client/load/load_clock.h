#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_CLOCK_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_CLOCK_H_

#include <chrono>

namespace steadystate::client {

// Latencies are differences of a clock that nobody sets.
using LoadClock = std::chrono::steady_clock;
using LoadTime = LoadClock::time_point;

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_CLOCK_H_
