#ifndef STEADYSTATE_SERVER_BASE_LOG_LIMITER_H_
#define STEADYSTATE_SERVER_BASE_LOG_LIMITER_H_

#include <chrono>
#include <cstdint>
#include <optional>

#include "server/base/mutex.h"

namespace steadystate {

// Bounds how many lines one source may log: kLines in each span of kSpan that
// begins with its first line. Thread-safe.
class LogLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr int kLines = 10;
  static constexpr std::chrono::seconds kSpan{10};

  // For one more line at `now`: nothing if it is to be left out, else how many
  // were left out since the last that was not.
  std::optional<uint64_t> Admit(Time now);

 private:
  Mutex mutex_;
  std::optional<Time> start_ ABSL_GUARDED_BY(mutex_);
  int lines_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_LOG_LIMITER_H_
