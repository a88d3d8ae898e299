#ifndef STEADYSTATE_SERVER_SESSION_SESSION_ARCHIVE_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_ARCHIVE_H_

#include <functional>
#include <span>

#include "absl/status/status.h"
#include "server/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/session/session_id.h"
#include "server/session/session_state.h"
#include "server/session/session_store.h"
#include "server/session/snapshot.h"

namespace steadystate {

// Moves sessions' states to a store and back, as snapshots, and counts that.
// All calls take as long as a disk does. Thread-safe.
class SessionArchive {
 public:
  // All of them outlive it.
  SessionArchive(const SnapshotFormat& snapshots, SessionStore& store,
                 const Clock& clock, Metrics& metrics)
      : snapshots_(snapshots),
        store_(store),
        clock_(clock),
        metrics_(metrics) {}

  // REQUIRES: the state is in memory, or at position 0; nobody changes it.
  absl::Status Save(const StoredSession& session, const SessionState& state);

  // Makes `to` what was saved last. -> whether that was under other numerics.
  // REQUIRES: it has a fresh slot, or the
  // session was saved at position 0. Errors of SessionStore::Read and
  // SnapshotFormat::Read.
  absl::StatusOr<bool> Load(const SessionUid& uid, SessionState& to);

  absl::Status Remove(std::span<const SessionUid> uids);
  absl::Status Sync();
  absl::Status ForEach(const std::function<void(StoredSession)>& each);

  // About what a session takes there.
  uint64_t session_bytes() const {
    return snapshots_.bytes_at(kTypicalPosition);
  }

 private:
  // Of a session that grows.
  static constexpr uint64_t kTypicalPosition = 4096;

  absl::Status Counted(StoreFailure kind, absl::Status status);

  const SnapshotFormat& snapshots_;
  SessionStore& store_;
  const Clock& clock_;
  Metrics& metrics_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_ARCHIVE_H_
