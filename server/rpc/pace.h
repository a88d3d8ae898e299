#ifndef STEADYSTATE_SERVER_RPC_PACE_H_
#define STEADYSTATE_SERVER_RPC_PACE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/engine/receiver.h"

namespace steadystate {

// What a client has to take or to give while it keeps more memory than its
// share and others wait: less than most links carry.
inline constexpr int64_t kLeastBytesPerSecond = int64_t{256} << 10;

// How a client takes or gives what is too long for one message. It may pause,
// but bytes that came fast do not make up for a pause after them.
// Thread-compatible.
class Pace {
 public:
  // From now on the client could do something.
  void Begin(SteadyTime now) {
    moved_ = now;
    due_ = now + kMaxStandstill;
  }
  // It has taken or given so much.
  void Move(size_t bytes, SteadyTime now) {
    moved_ = now;
    due_ = std::min(due_ + absl::Seconds(1) * static_cast<double>(bytes) /
                               static_cast<double>(kLeastBytesPerSecond),
                    now + kMaxStandstill);
  }
  // There is nothing that it could do.
  void Rest() { moved_ = due_ = SteadyTime::InfiniteFuture(); }

  // It has done nothing for kMaxStandstill.
  bool Stands(SteadyTime now) const { return now - moved_ >= kMaxStandstill; }
  // It is behind the least rate by kMaxStandstill.
  bool Lags(SteadyTime now) const { return now >= due_; }

 private:
  SteadyTime moved_ = SteadyTime::InfiniteFuture();
  SteadyTime due_ = SteadyTime::InfiniteFuture();
};

// DEADLINE_EXCEEDED: it lags. `what` it has to do with the bytes: "take".
absl::Status TooSlow(absl::string_view what);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_PACE_H_
