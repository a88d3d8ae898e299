#ifndef STEADYSTATE_SERVER_SESSION_STORE_RATE_H_
#define STEADYSTATE_SERVER_SESSION_STORE_RATE_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/session/session_store.h"

namespace steadystate {

// How fast snapshots get into the store: what writing and syncing them has
// taken lately. Thread-safe.
class StoreRate {
 public:
  // So many bytes were written, or what had been was synced (none), which took
  // `time`.
  void Note(uint64_t bytes, absl::Duration time);

  // 0 before anything has been written.
  double bytes_per_second() const;
  // How long so many bytes would take; zero while that is not known.
  absl::Duration TimeFor(uint64_t bytes) const;

 private:
  mutable Mutex mutex_;
  // The older, the less it counts.
  double bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  double seconds_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Tries the store with about as much at once as snapshots of `snapshot_bytes`
// have, a MiB to 8, and notes in `rate` what that took: up to 32 MiB, for a
// tenth of a second, or for as long as a slow disk takes for the last of them.
// Nothing of that stays. Errors of the store.
absl::Status MeasureStore(SessionStore& store, uint64_t snapshot_bytes,
                          const Clock& clock, StoreRate& rate);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_STORE_RATE_H_
