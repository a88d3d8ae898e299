#include "server/rpc/open_streams.h"

#include <cstddef>

#include "server/base/parking.h"

namespace steadystate {
namespace {

// A write is begun for each of them, in some ten microseconds.
constexpr size_t kVisitsAtOnce = 16;

}  // namespace

void OpenStreams::Add(OpenStream& stream) {
  const MutexLock lock(mutex_);
  streams_.insert(&stream);
  if (requests_until_.has_value()) stream.GoAway(*requests_until_);
  if (draining_) stream.Drain();
}

void OpenStreams::Remove(OpenStream& stream) {
  const MutexLock lock(mutex_);
  streams_.erase(&stream);
}

void OpenStreams::GoAway(absl::Time requests_until) {
  {
    const MutexLock lock(mutex_);
    requests_until_ = requests_until;
  }
  ForEach([=](OpenStream& stream) { stream.GoAway(requests_until); });
}

void OpenStreams::Drain() {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
  }
  ForEach([](OpenStream& stream) { stream.Drain(); });
}

void OpenStreams::Tick(SteadyTime now) {
  ForEach([=](OpenStream& stream) { stream.Tick(now); });
}

void OpenStreams::ForEach(absl::FunctionRef<void(OpenStream&)> visit) {
  OpenStream* last = nullptr;
  bool more = true;
  while (more) {
    {
      const MutexLock lock(mutex_);
      auto next = streams_.upper_bound(last);
      for (size_t i = 0; i < kVisitsAtOnce && next != streams_.end();
           ++i, ++next) {
        last = *next;
        visit(*last);
      }
      more = next != streams_.end();
    }
    MayPark("OpenStreams::ForEach");
  }
}

}  // namespace steadystate
