#ifndef STEADYSTATE_TESTS_TESTING_MEMORY_STORE_H_
#define STEADYSTATE_TESTS_TESTING_MEMORY_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/error.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/session/session_store.h"

namespace steadystate {

// A store in memory that fails when it is told to. Thread-safe.
class MemoryStore : public SessionStore {
 public:
  absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) override {
    const MutexLock lock(mutex_);
    if (fails_reads_) return Failure();
    for (const auto& [uid, entry] : entries_) each(entry.session);
    return absl::OkStatus();
  }

  absl::Status Put(const StoredSession& session, absl::string_view snapshot,
                   absl::string_view tail) override {
    MayPark("MemoryStore::Put");
    const MutexLock lock(mutex_);
    if (fails_writes_) return Failure();
    NoteUnsynced(session.card.uid);
    entries_[session.card.uid] = {session,
                                  {std::string(snapshot), std::string(tail)}};
    ++puts_;
    return fails_after_ ? Failure() : absl::OkStatus();
  }

  absl::Status PutChanges(std::span<const StoredChange> changes) override {
    const MutexLock lock(mutex_);
    if (fails_writes_) return Failure();
    for (const auto& [session, tail] : changes) {
      NoteUnsynced(session.card.uid);
      Entry& entry = entries_.at(session.card.uid);
      entry.session = session;
      if (tail.has_value()) entry.state.tail = *tail;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<StoredState> Read(const SessionUid& uid) override {
    MayPark("MemoryStore::Read");
    const MutexLock lock(mutex_);
    if (fails_reads_) return Failure();
    const auto found = entries_.find(uid);
    if (found == entries_.end() || damaged_) {
      return MakeError(ErrorReason::kSnapshotCorrupt, "not there");
    }
    return found->second.state;
  }

  absl::Status Remove(std::span<const SessionUid> uids) override {
    MayPark("MemoryStore::Remove");
    const MutexLock lock(mutex_);
    if (fails_writes_) return Failure();
    for (const SessionUid& uid : uids) {
      NoteUnsynced(uid);
      entries_.erase(uid);
    }
    return absl::OkStatus();
  }

  absl::Status ForEachExpired(
      const std::function<void(ExpiredId expired)>& each) override {
    const MutexLock lock(mutex_);
    if (fails_reads_) return Failure();
    for (const auto& [name, time] : expired_) each({name, time});
    return absl::OkStatus();
  }

  absl::Status PutExpired(std::span<const ExpiredId> expired) override {
    MayPark("MemoryStore::PutExpired");
    const MutexLock lock(mutex_);
    if (fails_writes_) return Failure();
    for (const auto& [name, time] : expired) {
      expired_.erase(name);
      if (time.has_value()) expired_.emplace(name, *time);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    const MutexLock lock(mutex_);
    if (fails_writes_ || fails_put_syncs_) return Failure();
    unsynced_.clear();
    return absl::OkStatus();
  }

  absl::Status Try(absl::string_view /*snapshot*/) override {
    const MutexLock lock(mutex_);
    return fails_writes_ ? Failure() : absl::OkStatus();
  }

  // The rounds of all processes so far.
  absl::Status ForEachRound(
      uint64_t from,
      const std::function<void(uint64_t round, absl::string_view content)>&
          each) override {
    std::map<uint64_t, std::string> rounds;
    {
      const MutexLock lock(mutex_);
      if (fails_reads_) return Failure();
      rounds.insert(rounds_.lower_bound(from), rounds_.end());
    }
    for (const auto& [number, content] : rounds) each(number, content);
    return absl::OkStatus();
  }

  absl::Status AppendRound(uint64_t round, absl::string_view content) override {
    MayPark("MemoryStore::AppendRound");
    const MutexLock lock(mutex_);
    if (fails_log_) return Failure();
    rounds_[round] = std::string(content);
    return fails_log_after_ ? Failure() : absl::OkStatus();
  }

  absl::Status SyncRounds() override {
    MayPark("MemoryStore::SyncRounds");
    const MutexLock lock(mutex_);
    if (fails_log_ || fails_syncs_) return Failure();
    if (!rounds_.empty()) synced_ = rounds_.rbegin()->first;
    return absl::OkStatus();
  }

  bool CanDropRounds(uint64_t below) override {
    const MutexLock lock(mutex_);
    return !rounds_.empty() && rounds_.begin()->first < below;
  }

  absl::Status DropRounds(uint64_t below) override {
    const MutexLock lock(mutex_);
    rounds_.erase(rounds_.begin(), rounds_.lower_bound(below));
    return absl::OkStatus();
  }

  uint64_t RoundBytes() override {
    const MutexLock lock(mutex_);
    uint64_t bytes = 0;
    for (const auto& [number, content] : rounds_) bytes += content.size();
    return bytes;
  }

  // Of the log: what is appended is not there, or it is and the caller is told
  // that it failed.
  void FailLog(bool fail) {
    const MutexLock lock(mutex_);
    fails_log_ = fail;
  }
  void FailLogAfterIt(bool fail) {
    const MutexLock lock(mutex_);
    fails_log_after_ = fail;
  }
  void FailLogSyncs(bool fail) {
    const MutexLock lock(mutex_);
    fails_syncs_ = fail;
  }
  // The power is lost: what was not synced of the log is gone. What was put
  // stays, as it may.
  void LosePower() {
    const MutexLock lock(mutex_);
    rounds_.erase(rounds_.upper_bound(synced_), rounds_.end());
  }
  // The same, but `rounds_left` of the rounds that were not synced are there,
  // and as many of the puts and removals that were not; of both the first ones.
  // REQUIRES: MayLosePuts was called before them.
  void LosePower(size_t rounds_left, size_t puts_left) {
    const MutexLock lock(mutex_);
    auto lost = rounds_.upper_bound(synced_);
    for (; rounds_left > 0 && lost != rounds_.end(); --rounds_left) ++lost;
    rounds_.erase(lost, rounds_.end());
    for (; unsynced_.size() > puts_left; unsynced_.pop_back()) {
      auto& [uid, before] = unsynced_.back();
      if (before.has_value()) {
        entries_[uid] = *std::move(before);
      } else {
        entries_.erase(uid);
      }
    }
  }
  // From now on the store knows what was put since it was last synced.
  void MayLosePuts() {
    const MutexLock lock(mutex_);
    notes_unsynced_ = true;
  }
  // What a process finds if the one that uses this store is killed now. The
  // copy does not fail. REQUIRES: it is new.
  void CopyTo(MemoryStore& copy) {
    const MutexLock lock(mutex_);
    const MutexLock copy_lock(copy.mutex_);
    copy.entries_ = entries_;
    copy.expired_ = expired_;
    copy.notes_unsynced_ = notes_unsynced_;
    copy.unsynced_ = unsynced_;
    copy.rounds_ = rounds_;
    copy.synced_ = synced_;
  }
  // One of the rounds is gone.
  void LoseRound(uint64_t round) {
    const MutexLock lock(mutex_);
    rounds_.erase(round);
  }
  // How many a loss of power would leave.
  size_t synced_rounds() {
    const MutexLock lock(mutex_);
    return static_cast<size_t>(
        std::distance(rounds_.begin(), rounds_.upper_bound(synced_)));
  }
  size_t rounds() {
    const MutexLock lock(mutex_);
    return rounds_.size();
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
  // What is put may be lost with the power.
  void FailPutSyncs(bool fail) {
    const MutexLock lock(mutex_);
    fails_put_syncs_ = fail;
  }
  void FailReads(bool fail) {
    const MutexLock lock(mutex_);
    fails_reads_ = fail;
  }
  // No snapshot can be read, and another try does not help.
  void Damage(bool damaged) {
    const MutexLock lock(mutex_);
    damaged_ = damaged;
  }
  // Changes a byte in the middle of every snapshot.
  void Spoil() {
    const MutexLock lock(mutex_);
    for (auto& [uid, entry] : entries_) {
      std::string& bytes = entry.state.snapshot;
      char& byte = bytes[bytes.size() / 2];
      byte = static_cast<char>(~byte);
    }
  }

  size_t size() {
    const MutexLock lock(mutex_);
    return entries_.size();
  }
  size_t expired() {
    const MutexLock lock(mutex_);
    return expired_.size();
  }
  size_t puts() {
    const MutexLock lock(mutex_);
    return puts_;
  }

 private:
  struct Entry {
    StoredSession session;
    StoredState state;
  };

  static absl::Status Failure() {
    return MakeError(ErrorReason::kStoreUnavailable, "the store fails", {},
                     absl::Seconds(1));
  }

  void NoteUnsynced(const SessionUid& uid)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!notes_unsynced_) return;
    const auto found = entries_.find(uid);
    unsynced_.emplace_back(uid, found == entries_.end()
                                    ? std::nullopt
                                    : std::optional<Entry>(found->second));
  }

  Mutex mutex_;
  std::map<SessionUid, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Time> expired_ ABSL_GUARDED_BY(mutex_);
  // What the store had in their place before they were put or removed.
  bool notes_unsynced_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<SessionUid, std::optional<Entry>>> unsynced_
      ABSL_GUARDED_BY(mutex_);
  bool fails_put_syncs_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_writes_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_after_ ABSL_GUARDED_BY(mutex_) = false;
  bool damaged_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_reads_ ABSL_GUARDED_BY(mutex_) = false;
  size_t puts_ ABSL_GUARDED_BY(mutex_) = 0;

  std::map<uint64_t, std::string> rounds_ ABSL_GUARDED_BY(mutex_);
  uint64_t synced_ ABSL_GUARDED_BY(mutex_) = 0;
  bool fails_log_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_log_after_ ABSL_GUARDED_BY(mutex_) = false;
  bool fails_syncs_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_MEMORY_STORE_H_
