#ifndef STEADYSTATE_CLIENT_LOAD_LOAD_CLOCK_H_
#define STEADYSTATE_CLIENT_LOAD_LOAD_CLOCK_H_

#include "client/clock.h"

namespace steadystate::client {

// Latencies are differences of a clock that nobody sets.
using LoadClock = SteadyClock;
using LoadTime = SteadyTime;

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_LOAD_CLOCK_H_
