#ifndef STEADYSTATE_SERVER_BASE_CLOCK_H_
#define STEADYSTATE_SERVER_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace steadystate {

// Where the server reads the time of day; tests pass a clock of their own.
// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;

  // The machine's clock. Lives for ever.
  static const Clock& Real();
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_CLOCK_H_
