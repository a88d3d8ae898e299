#ifndef STEADYSTATE_CLIENT_LOAD_ARRIVALS_H_
#define STEADYSTATE_CLIENT_LOAD_ARRIVALS_H_

#include <chrono>
#include <cstdint>

#include "client/load/random.h"

namespace steadystate::client {

// The times at which requests of a Poisson process arrive: gaps are independent
// and exponentially distributed, as of many users who know nothing of each
// other nor of the server's speed. The same seed gives the same times.
// Thread-compatible.
class PoissonArrivals {
 public:
  // REQUIRES: rate_per_second > 0.
  PoissonArrivals(double rate_per_second, uint64_t seed);

  // When the next request arrives, counted from the beginning. Never decreases.
  std::chrono::nanoseconds Next();

 private:
  const double mean_gap_seconds_;
  Random random_;
  double seconds_ = 0;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_LOAD_ARRIVALS_H_
