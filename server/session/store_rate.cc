#include "server/session/store_rate.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "server/base/status_macros.h"
#include "server/session/session_id.h"
#include "server/session/session_info.h"

namespace steadystate {
namespace {

// What was written before so many bytes counts half.
constexpr double kLatelyBytes = 256 << 20;

// Of a measurement.
constexpr uint64_t kMostBytes = uint64_t{32} << 20;
constexpr uint64_t kMostBytesOfOne = uint64_t{8} << 20;
constexpr absl::Duration kMostTime = absl::Milliseconds(100);

// As hard to compress as a state is.
std::string RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  std::minstd_rand random(1);
  for (char& byte : bytes) byte = static_cast<char>(random() >> 8);
  return bytes;
}

// A session that nobody can name, which no start takes up.
StoredSession Probe() {
  StoredSession probe;
  probe.card.uid = NewSessionUid();
  probe.card.id = NewSessionId();
  probe.durability = Durability::kNone;
  return probe;
}

// Fills in what is there then, also where that fails.
absl::Status Fill(SessionStore& store, absl::string_view snapshot,
                  const Clock& clock, std::vector<SessionUid>& written) {
  const SteadyTime start = clock.Now();
  uint64_t bytes = 0;
  uint64_t synced = 0;
  do {
    const StoredSession probe = Probe();
    written.push_back(probe.card.uid);
    STEADYSTATE_RETURN_IF_ERROR(store.Put(probe, snapshot, ""));
    bytes += snapshot.size();
    // So that a slow disk is known to be one before it has much to do.
    if (bytes < 2 * synced) continue;
    STEADYSTATE_RETURN_IF_ERROR(store.Sync());
    synced = bytes;
  } while (bytes + snapshot.size() <= kMostBytes &&
           clock.Now() - start < kMostTime);
  return store.Sync();
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
  const std::string snapshot =
      RandomBytes(std::clamp(snapshot_bytes, uint64_t{1}, kMostBytesOfOne));
  std::vector<SessionUid> written;
  const SteadyTime start = clock.Now();
  const absl::Status filled = Fill(store, snapshot, clock, written);
  if (filled.ok()) {
    rate.Note(snapshot.size() * written.size(), clock.Now() - start);
  }
  const absl::Status removed = store.Remove(written);
  return filled.ok() ? removed : filled;
}

}  // namespace steadystate
