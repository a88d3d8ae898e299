#include "server/session/session_archive.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/status_macros.h"

namespace steadystate {

absl::Status SessionArchive::Counted(StoreFailure kind, absl::Status status) {
  if (!status.ok()) metrics_.StoreFailed(kind);
  return status;
}

absl::Status SessionArchive::Put(const StoredSession& session,
                                 absl::string_view snapshot,
                                 absl::string_view tail, SteadyTime start) {
  STEADYSTATE_RETURN_IF_ERROR(
      Counted(StoreFailure::kWrite, store_.Put(session, snapshot, tail)));
  const absl::Duration time = clock_.Now() - start;
  metrics_.Snapshot(SnapshotUse::kWritten, time, snapshot.size());
  // Counted as any is, so that the estimate is one of time for each.
  if (session.position > 0) rate_.Note(session_bytes(), time);
  return absl::OkStatus();
}

absl::Status SessionArchive::PutNew(const StoredSession& session) {
  return Put(session, WriteNew(session), "", clock_.Now());
}

absl::StatusOr<SessionArchive::Loaded> SessionArchive::Load(
    const SessionUid& uid, const std::optional<StoredTail>& tail,
    SessionState& to) {
  const SteadyTime start = clock_.Now();
  absl::StatusOr<StoredState> stored = store_.Read(uid);
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kRead, stored.status()));
  const absl::StatusOr<Snapshot> snapshot = snapshots_.Read(stored->snapshot);
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kRead, snapshot.status()));
  // One that was taken back to its beginning has no slots that would tell: it
  // would be computed here in a form that its own server cannot read.
  if (tail.has_value()) {
    STEADYSTATE_RETURN_IF_ERROR(
        Counted(StoreFailure::kRead, snapshots_.CheckForm(*snapshot)));
  }
  snapshots_.Restore(*snapshot, to);
  metrics_.Snapshot(SnapshotUse::kRead, clock_.Now() - start,
                    stored->snapshot.size());
  Loaded loaded = {.other_numerics = snapshot->other_numerics, .tail = nullptr};
  if (tail.has_value()) {
    loaded.tail = std::make_unique<LogTail>(
        std::make_shared<const std::string>(std::move(stored->tail)),
        tail->end);
  }
  return loaded;
}

absl::StatusOr<SessionArchive::Kept> SessionArchive::Read(
    const SessionUid& uid) {
  absl::StatusOr<StoredState> stored = store_.Read(uid);
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kRead, stored.status()));
  const absl::StatusOr<Snapshot> snapshot = snapshots_.Read(stored->snapshot);
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kRead, snapshot.status()));
  const bool other_numerics = snapshot->other_numerics;
  const uint64_t position = snapshot->contents.position;
  return Kept{.snapshot = std::move(stored->snapshot),
              .tail = std::move(stored->tail),
              .position = position,
              .other_numerics = other_numerics};
}

absl::StatusOr<std::string> SessionArchive::NumericsOf(const SessionUid& uid) {
  STEADYSTATE_ASSIGN_OR_RETURN(const StoredState stored, store_.Read(uid));
  STEADYSTATE_ASSIGN_OR_RETURN(const Snapshot snapshot,
                               snapshots_.Read(stored.snapshot));
  return Difference(snapshot.numerics, snapshots_.numerics());
}

absl::Status SessionArchive::Restore(absl::string_view snapshot,
                                     SessionState& to) const {
  STEADYSTATE_ASSIGN_OR_RETURN(const Snapshot read, snapshots_.Read(snapshot));
  snapshots_.Restore(read, to);
  return absl::OkStatus();
}

absl::Status SessionArchive::PutChanges(std::span<const StoredChange> changes) {
  return Counted(StoreFailure::kWrite, store_.PutChanges(changes));
}

absl::Status SessionArchive::Remove(std::span<const SessionUid> uids) {
  return Counted(StoreFailure::kWrite, store_.Remove(uids));
}

absl::Status SessionArchive::PutExpired(std::span<const ExpiredId> expired) {
  return Counted(StoreFailure::kWrite, store_.PutExpired(expired));
}

absl::Status SessionArchive::Sync() {
  const SteadyTime start = clock_.Now();
  STEADYSTATE_RETURN_IF_ERROR(Counted(StoreFailure::kWrite, store_.Sync()));
  rate_.Note(0, clock_.Now() - start);
  return absl::OkStatus();
}

absl::Status SessionArchive::ForEach(
    const std::function<void(StoredSession)>& each) {
  return Counted(StoreFailure::kRead, store_.ForEach(each));
}

absl::StatusOr<std::vector<ExpiredId>> SessionArchive::Expired() {
  std::vector<ExpiredId> all;
  STEADYSTATE_RETURN_IF_ERROR(Counted(
      StoreFailure::kRead, store_.ForEachExpired([&all](ExpiredId expired) {
        all.push_back(std::move(expired));
      })));
  std::sort(all.begin(), all.end(), [](const ExpiredId& a, const ExpiredId& b) {
    return a.time < b.time;
  });
  return all;
}

}  // namespace steadystate
