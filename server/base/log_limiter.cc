#include "server/base/log_limiter.h"

#include <utility>

namespace steadystate {

std::optional<uint64_t> LogLimiter::Admit(Time now) {
  const MutexLock lock(mutex_);
  if (!start_.has_value() || now - *start_ >= kSpan) {
    start_ = now;
    lines_ = 0;
  }
  if (lines_ == kLines) {
    ++left_out_;
    return std::nullopt;
  }
  ++lines_;
  return std::exchange(left_out_, 0);
}

}  // namespace steadystate
