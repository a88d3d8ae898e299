#ifndef STEADYSTATE_TESTS_TESTING_MEMORY_STORE_H_
#define STEADYSTATE_TESTS_TESTING_MEMORY_STORE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/session/session_store.h"

namespace steadystate {

// A store in memory that fails when it is told to. Thread-safe.
class MemoryStore final : public SessionStore {
 public:
  absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) override {
    const MutexLock lock(mutex_);
    if (fails_reads_) return Failure();
    for (const auto& [uid, entry] : entries_) each(entry.session);
    return absl::OkStatus();
  }

  absl::Status Put(const StoredSession& session,
                   absl::string_view snapshot) override {
    MayPark("MemoryStore::Put");
    const MutexLock lock(mutex_);
    if (fails_writes_) return Failure();
    entries_[session.card.uid] = {session, std::string(snapshot)};
    ++puts_;
    return fails_after_ ? Failure() : absl::OkStatus();
  }

  absl::StatusOr<std::string> Read(const SessionUid& uid) override {
    MayPark("MemoryStore::Read");
    const MutexLock lock(mutex_);
    if (fails_reads_) return Failure();
    const auto found = entries_.find(uid);
    if (found == entries_.end()) {
      return MakeError(ErrorReason::kSnapshotCorrupt, "not there");
    }
    return found->second.snapshot;
  }

  absl::Status Remove(std::span<const SessionUid> uids) override {
    MayPark("MemoryStore::Remove");
    const MutexLock lock(mutex_);
    if (fails_writes_) return Failure();
    for (const SessionUid& uid : uids) entries_.erase(uid);
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    const MutexLock lock(mutex_);
    return fails_writes_ ? Failure() : absl::OkStatus();
  }

  void FailWrites(bool fail) {
    const MutexLock lock(mutex_);
    fails_writes_ = fail;
  }
  // What is put is there, and the caller is told that it failed.
  void FailWritesAfterThem(bool fail) {
    const MutexLock lock(mutex_);
    fails_after_ = fail;
  }
  void FailReads(bool fail) {
    const MutexLock lock(mutex_);
    fails_reads_ = fail;
  }
  // Changes a byte in the middle of every snapshot.
  void Spoil() {
    const MutexLock lock(mutex_);
    for (auto& [uid, entry] : entries_) {
      char& byte = entry.snapshot[entry.snapshot.size() / 2];
      byte = static_cast<char>(~byte);
    }
  }

  size_t size() {
    const MutexLock lock(mutex_);
    return entries_.size();
  }
  size_t puts() {
    const MutexLock lock(mutex_);
    return puts_;
  }

 private:
  struct Entry {
    StoredSession session;
    std::string snapshot;
  };

  static absl::Status Failure() {
    return MakeError(ErrorReason::kStoreUnavailable, "the store fails", {},
                     absl::Seconds(1));
  }

  Mutex mutex_;
  std::map<SessionUid, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool fails_writes_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_after_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_reads_ ABSL_GUARDED_BY(mutex_) = false;
  size_t puts_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_MEMORY_STORE_H_
