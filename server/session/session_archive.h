#ifndef STEADYSTATE_SERVER_SESSION_SESSION_ARCHIVE_H_
#define STEADYSTATE_SERVER_SESSION_SESSION_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/clock.h"
#include "server/metrics/metrics.h"
#include "server/session/log_entry.h"
#include "server/session/session_id.h"
#include "server/session/session_state.h"
#include "server/session/session_store.h"
#include "server/session/snapshot.h"
#include "server/session/store_rate.h"

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
  std::string Write(const StoredSession& session,
                    const SessionState& state) const {
    return snapshots_.Write(session.card, state,
                            {.imported = state.imported()});
  }
  // The same of one that has absorbed nothing.
  std::string WriteNew(const StoredSession& session) const {
    return Write(session, SessionState(snapshots_.layout()));
  }
  // What Write returned for the session, which began at `start`.
  //   tail  what it has absorbed since, as SessionStore::Put has it
  absl::Status Put(const StoredSession& session, absl::string_view snapshot,
                   absl::string_view tail, SteadyTime start);
  // A session that has absorbed nothing.
  absl::Status PutNew(const StoredSession& session);

  struct Loaded {
    bool other_numerics = false;  // than it was saved under
    // What is to be absorbed again, if anything is.
    std::unique_ptr<LogTail> tail;
  };
  // Makes `to` what was saved last. REQUIRES: it has a fresh slot, or the
  // session was saved at position 0 without a tail. Errors of
  // SessionStore::Read and SnapshotFormat::Read.
  //   tail  what is known of it: nothing if the session has none
  absl::StatusOr<Loaded> Load(const SessionUid& uid,
                              const std::optional<StoredTail>& tail,
                              SessionState& to);

  // The snapshot of what was saved last, one that Restore can make a state of,
  // and what came after it, as LogTail has it. Errors of Load.
  struct Kept {
    std::string snapshot;
    std::string tail;
    uint64_t position = 0;
    bool other_numerics = false;  // as of Loaded
  };
  absl::StatusOr<Kept> Read(const SessionUid& uid);
  // In what the numerics of its snapshot are not these (Difference).
  absl::StatusOr<std::string> NumericsOf(const SessionUid& uid);
  absl::Status Restore(absl::string_view snapshot, SessionState& to) const;

  absl::Status PutChanges(std::span<const StoredChange> changes);
  absl::Status Remove(std::span<const SessionUid> uids);
  absl::Status PutExpired(std::span<const ExpiredId> expired);
  absl::Status Sync();
  absl::Status ForEach(const std::function<void(StoredSession)>& each);
  // First those that expired first.
  absl::StatusOr<std::vector<ExpiredId>> Expired();

  // May such a tail be absorbed by others alone, unless rounding may differ?
  bool NeedsOtherNumerics(const std::optional<StoredTail>& tail) const {
    return IsOfOtherNumerics(tail) && !tail->remade;
  }

  // The store, for what needs no counting, and what tells numerics apart.
  SessionStore& store() { return store_; }
  uint64_t numerics_tag() const { return snapshots_.numerics_tag(); }
  // Has something been absorbed under other numerics than these, or unknown
  // ones?
  bool IsOfOtherNumerics(const std::optional<StoredTail>& tail) const {
    return tail.has_value() &&
           (tail->numerics == 0 || tail->numerics != numerics_tag());
  }

  // How fast snapshots get there, each counted as session_bytes().
  StoreRate& rate() { return rate_; }
  // How long snapshots of so many sessions would take.
  absl::Duration TimeFor(size_t sessions) const {
    return rate_.TimeFor(sessions * session_bytes());
  }

  // About what a session takes there at this position, or more.
  uint64_t bytes_at(uint64_t position) const {
    return snapshots_.bytes_at(position);
  }
  // What any is counted as where time is estimated.
  uint64_t session_bytes() const { return bytes_at(kTypicalPosition); }

 private:
  // Of a session that grows.
  static constexpr uint64_t kTypicalPosition = 4096;

  absl::Status Counted(StoreFailure kind, absl::Status status);

  const SnapshotFormat& snapshots_;
  SessionStore& store_;
  const Clock& clock_;
  Metrics& metrics_;
  StoreRate rate_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_SESSION_ARCHIVE_H_
