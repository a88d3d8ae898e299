#include "server/session/session_archive.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::Status SessionArchive::Counted(StoreFailure kind, absl::Status status) {
  if (!status.ok()) metrics_.StoreFailed(kind);
  return status;
}

absl::Status SessionArchive::Save(const StoredSession& session,
                                  const SessionState& state) {
  const SteadyTime start = clock_.Now();
  const std::string snapshot = snapshots_.Write(session.card, state);
  STEADYSTATE_RETURN_IF_ERROR(
      Counted(StoreFailure::kWrite, store_.Put(session, snapshot)));
  metrics_.Snapshot(SnapshotUse::kWritten, clock_.Now() - start,
                    snapshot.size());
  return absl::OkStatus();
}

absl::StatusOr<bool> SessionArchive::Load(const SessionUid& uid,
                                          SessionState& to) {
  const SteadyTime start = clock_.Now();
  absl::StatusOr<std::string> bytes = store_.Read(uid);
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kRead, bytes.status()));
  const absl::StatusOr<Snapshot> snapshot = snapshots_.Read(*bytes);
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kRead, snapshot.status()));
  snapshots_.Restore(*snapshot, to);
  metrics_.Snapshot(SnapshotUse::kRead, clock_.Now() - start, bytes->size());
  return snapshot->other_numerics;
}

absl::Status SessionArchive::Remove(std::span<const SessionUid> uids) {
  return Counted(StoreFailure::kWrite, store_.Remove(uids));
}

absl::Status SessionArchive::Sync() {
  return Counted(StoreFailure::kWrite, store_.Sync());
}

absl::Status SessionArchive::ForEach(
    const std::function<void(StoredSession)>& each) {
  return Counted(StoreFailure::kRead, store_.ForEach(each));
}

}  // namespace steadystate
