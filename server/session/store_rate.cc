#include "server/session/store_rate.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>

#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// What was written before so many bytes counts half.
constexpr double kLatelyBytes = 256 << 20;

// Of a measurement: in all, and at once, since what is written down when the
// process ends is synced as a whole.
constexpr uint64_t kMostBytes = uint64_t{32} << 20;
constexpr uint64_t kLeastBytesAtOnce = uint64_t{1} << 20;
constexpr uint64_t kMostBytesAtOnce = uint64_t{8} << 20;
constexpr absl::Duration kMostTime = absl::Milliseconds(100);

// As hard to compress as a state is.
std::string RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  std::minstd_rand random(1);
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
  return bytes;
}

}  // namespace

void StoreRate::Note(uint64_t bytes, absl::Duration time) {
  const MutexLock lock(mutex_);
  bytes_ += static_cast<double>(bytes);
  seconds_ += std::max(absl::ToDoubleSeconds(time), 0.0);
  if (bytes_ < kLatelyBytes) return;
  bytes_ /= 2;
  seconds_ /= 2;
}

double StoreRate::bytes_per_second() const {
  const MutexLock lock(mutex_);
  return seconds_ > 0 ? bytes_ / seconds_ : 0;
}

absl::Duration StoreRate::TimeFor(uint64_t bytes) const {
  const double rate = bytes_per_second();
  if (rate <= 0) return absl::ZeroDuration();
  return absl::Seconds(static_cast<double>(bytes) / rate);
}

absl::Status MeasureStore(SessionStore& store, uint64_t snapshot_bytes,
                          const Clock& clock, StoreRate& rate) {
  const std::string snapshot = RandomBytes(
      std::clamp(snapshot_bytes, kLeastBytesAtOnce, kMostBytesAtOnce));
  const SteadyTime start = clock.Now();
  uint64_t bytes = 0;
  do {
    STEADYSTATE_RETURN_IF_ERROR(store.Try(snapshot));
    bytes += snapshot.size();
  } while (bytes + snapshot.size() <= kMostBytes &&
           clock.Now() - start < kMostTime);
  rate.Note(bytes, clock.Now() - start);
  return absl::OkStatus();
}

}  // namespace steadystate
