#include "server/rpc/connection_cutter.h"

#include <utility>

#include "server/base/clock.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

// How long after a round the next one begins: where descriptors were out, some
// could not be cut.
constexpr absl::Duration kRoundGap = absl::Milliseconds(100);

}  // namespace

ConnectionCutter::ConnectionCutter(ConnectionTable table, absl::Duration grace)
    : table_(std::move(table)), thread_(&ConnectionCutter::Run, this, grace) {}

ConnectionCutter::~ConnectionCutter() {
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    ended_changed_.SignalAll();
  }
  thread_.join();
}

void ConnectionCutter::Run(absl::Duration grace) {
  if (EndsWithin(grace)) return;
  table_.Sweep();
  LogWarning("connections did not end in time and are cut off",
             {{"connections", table_.size()}});
  do {
    for (const ConnectionTable::Connection& connection : table_.connections()) {
      ConnectionTable::Cut(connection);
    }
    table_.Sweep();
  } while (!EndsWithin(kRoundGap));
}

bool ConnectionCutter::EndsWithin(absl::Duration duration) {
  const Clock& clock = Clock::Real();
  const SteadyTime end = clock.Now() + duration;
  const MutexLock lock(mutex_);
  while (!ended_) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) return false;
    ended_changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(left));
  }
  return true;
}

}  // namespace steadystate
