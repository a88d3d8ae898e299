#include "server/store/rocks_store.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/options.h"
#include "rocksdb/version.h"
#include "rocksdb/write_batch.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/base/status_macros.h"
#include "server/store/file_calls.h"
#include "server/store/rocks_database.h"
#include "server/store/rocks_look.h"
#include "server/store/rocks_options.h"
#include "server/store/round_log.h"
#include "server/store/snapshot_files.h"
#include "server/store/store_files.h"
#include "server/store/store_format.h"
#include "server/store/stored_form.h"

namespace steadystate {
namespace {

rocksdb::Slice SliceOf(absl::string_view text) {
  return {text.data(), text.size()};
}

absl::string_view ViewOf(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

rocksdb::Slice KeyOf(const SessionUid& uid) {
  return {reinterpret_cast<const char*>(uid.data()), sizeof(uid)};
}

class RocksSessionStore final : public SessionStore {
 public:
  explicit RocksSessionStore(RocksStoreOptions options)
      : options_(std::move(options)),
        file_system_(std::make_shared<StoreFiles>(
            options_.directory, options_.file_system != nullptr
                                    ? options_.file_system
                                    : rocksdb::FileSystem::Default())),
        env_(rocksdb::NewCompositeEnv(file_system_)),
        database_({.directory = options_.directory,
                   .model = {options_.model, options_.fingerprint},
                   .env = env_.get(),
                   .files = file_system_.get(),
                   .calls = options_.calls,
                   .allow_damage = options_.allow_damage},
                  [this]()
                      ABSL_NO_THREAD_SAFETY_ANALYSIS { return FindFiles(); }),
        files_(absl::StrCat(options_.directory, "/snapshots"), file_system_) {}

  absl::Status Open();

  absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) override;
  absl::Status Put(const StoredSession& session, absl::string_view snapshot,
                   absl::string_view tail) override;
  absl::Status PutChanges(std::span<const StoredChange> changes) override;
  absl::StatusOr<StoredState> Read(const SessionUid& uid) override;
  absl::Status Remove(std::span<const SessionUid> uids) override;
  absl::Status ForEachExpired(
      const std::function<void(ExpiredId expired)>& each) override;
  absl::Status PutExpired(std::span<const ExpiredId> expired) override;
  absl::Status Sync() override;
  absl::Status Try(absl::string_view snapshot) override;

  // The log lies in files of its own: a round in a database would wait for
  // the snapshots that are written there.
  absl::Status ForEachRound(
      uint64_t from,
      const std::function<void(uint64_t round, absl::string_view content)>&
          each) override {
    return log_->ForEach(from, each);
  }
  absl::Status AppendRound(uint64_t round, absl::string_view content) override {
    return log_->Append(round, content);
  }
  absl::Status SyncRounds() override { return log_->Sync(); }
  bool CanDropRounds(uint64_t below) override { return log_->CanDrop(below); }
  absl::Status DropRounds(uint64_t below) override { return log_->Drop(below); }
  uint64_t RoundBytes() override { return log_->bytes(); }

 private:
  absl::Status SyncDirectories();
  absl::Status WholeList(const rocksdb::Status& end) const;
  rocksdb::Status FindFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TuneCollection() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteOver(std::span<const SessionUid> uids,
                         const std::optional<SnapshotFile>& file,
                         rocksdb::WriteBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RocksStoreOptions options_;
  const std::shared_ptr<StoreFiles> file_system_;
  const std::unique_ptr<rocksdb::Env> env_;  // which has that
  std::unique_ptr<RoundLog> log_;            // after Open
  Mutex mutex_;
  RocksDatabase database_ ABSL_GUARDED_BY(mutex_);

  // Of the snapshots in the database, which share is collected, and how much
  // has been put there since that was looked at.
  double collected_share_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t put_bytes_ ABSL_GUARDED_BY(mutex_) = 0;

  SnapshotFiles files_ ABSL_GUARDED_BY(mutex_);
  // Whose snapshots are in files, as the database has it.
  std::map<SessionUid, SnapshotFile> file_of_ ABSL_GUARDED_BY(mutex_);
};

absl::Status RocksSessionStore::Open() {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.Open());
  STEADYSTATE_ASSIGN_OR_RETURN(
      log_, RoundLog::Open({.directory = options_.directory + "/rounds",
                            .calls = options_.calls,
                            .file_bytes = options_.log_file_bytes,
                            .store = &file_system_->directory(),
                            .allow_damage = options_.allow_damage}));
  return SyncDirectories();
}

// All that has been made there, and the directory itself, are there after a
// loss of power: the database sees to its own files only.
absl::Status RocksSessionStore::SyncDirectories() {
  const std::string& directory = options_.directory;
  if (SyncDirectory(directory, *options_.calls) != 0) {
    return StoreUnavailable("be opened", std::strerror(errno));
  }
  // What is above may be somebody else's, and not to be opened.
  const std::string above = directory + "/..";
  if (SyncDirectory(above, *options_.calls) != 0 && errno != EACCES) {
    LogWarning("a directory cannot be synced",
               {{"directory", above}, {"error", std::strerror(errno)}});
  }
  return absl::OkStatus();
}

// The share that is collected follows the store's size, by and large: telling
// the database writes a file.
void RocksSessionStore::TuneCollection() {
  constexpr double kApart = 1.5;
  put_bytes_ = 0;
  uint64_t bytes = 0;
  database_->GetIntProperty(database_.snapshots(),
                            rocksdb::DB::Properties::kTotalBlobFileSize,
                            &bytes);
  const double share = CollectedShare(bytes);
  if (share < collected_share_ * kApart && share > collected_share_ / kApart) {
    return;
  }
  const rocksdb::Status set = database_->SetOptions(
      database_.snapshots(),
      {{"blob_garbage_collection_age_cutoff", absl::StrCat(share)}});
  // Else it is tried again when as much has been put there.
  if (set.ok()) collected_share_ = share;
}

// Which snapshots are in files; all other files go.
rocksdb::Status RocksSessionStore::FindFiles() {
  file_of_.clear();
  std::set<uint64_t> needed;
  {
    const std::unique_ptr<rocksdb::Iterator> at(
        database_->NewIterator(rocksdb::ReadOptions(), database_.in_files()));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
      const auto file = SnapshotFile::FromBytes(ViewOf(at->value()));
      SessionUid uid;
      if (!file.has_value() || at->key().size() != sizeof(uid)) {
        LogError("stored session without a snapshot",
                 {{"error", "what names its file is unreadable"}});
        continue;
      }
      std::memcpy(uid.data(), at->key().data(), sizeof(uid));
      file_of_.emplace(uid, *file);
      needed.insert(file->number);
    }
    if (!at->status().ok()) return at->status();
  }
  const absl::Status opened =
      files_.Open([&](uint64_t number) { return needed.contains(number); });
  if (!opened.ok()) return rocksdb::Status::IOError(SliceOf(opened.message()));
  collected_share_ = CollectedShare(0);
  TuneCollection();
  return rocksdb::Status::OK();
}

// How reading a list from its beginning to its end has ended. A part that is
// damaged stays so.
absl::Status RocksSessionStore::WholeList(const rocksdb::Status& end) const {
  if (end.ok()) return absl::OkStatus();
  return end.IsCorruption()
             ? DatabaseDamaged(options_.directory, end.ToString())
             : StoreUnavailable("be read", end.ToString());
}

absl::Status RocksSessionStore::ForEach(
    const std::function<void(StoredSession session)>& each) {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWorks("be read"));
  const std::unique_ptr<rocksdb::Iterator> at(
      database_->NewIterator(rocksdb::ReadOptions(), database_.sessions()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    absl::StatusOr<StoredSession> session = DecodeStored(ViewOf(at->value()));
    if (session.ok()) {
      each(*std::move(session));
    } else {
      LogError("stored session left out",
               {{"error", session.status().message()}});
    }
  }
  return WholeList(at->status());
}

absl::Status RocksSessionStore::Put(const StoredSession& session,
                                    absl::string_view snapshot,
                                    absl::string_view tail) {
  const std::string card = EncodeStored(session);
  rocksdb::WriteBatch batch;
  const SessionUid& uid = session.card.uid;
  const rocksdb::Slice key = KeyOf(uid);
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWritable());
  std::optional<SnapshotFile> file;
  if (snapshot.size() > options_.snapshot_file_bytes) {
    absl::StatusOr<SnapshotFile> written = files_.Write(snapshot);
    if (!written.ok()) {
      return database_.WriteFailed(std::string(written.status().message()));
    }
    file = *written;
    MayPark("RocksStore::Put, with a file");
  }
  batch.Put(database_.sessions(), key, card);
  if (file.has_value()) {
    batch.Delete(database_.snapshots(), key);
    batch.Put(database_.in_files(), key, file->ToBytes());
  } else {
    batch.Put(database_.snapshots(), key, SliceOf(snapshot));
  }
  if (tail.empty()) {
    batch.Delete(database_.tails(), key);
  } else {
    batch.Put(database_.tails(), key, SliceOf(tail));
  }
  const absl::Status written = WriteOver({&uid, 1}, file, batch);
  if (!file.has_value()) put_bytes_ += snapshot.size();
  if (written.ok() && put_bytes_ >= kBytesOfCompaction) TuneCollection();
  return written;
}

// Writes a batch that gives these sessions other snapshots, or none.
//   file  that of the new snapshot, if there is one; it is in the batch
absl::Status RocksSessionStore::WriteOver(
    std::span<const SessionUid> uids, const std::optional<SnapshotFile>& file,
    rocksdb::WriteBatch& batch) {
  std::vector<SnapshotFile> old;
  for (const SessionUid& uid : uids) {
    const auto found = file_of_.find(uid);
    if (found == file_of_.end()) continue;
    old.push_back(found->second);
    if (!file.has_value()) batch.Delete(database_.in_files(), KeyOf(uid));
  }
  const bool changes = file.has_value() || !old.empty();
  // A loss of power must not leave a database that needs files which are gone.
  const absl::Status written = database_.Write(
      batch, old.empty() ? RocksDatabase::Safety::kFromKill
                         : RocksDatabase::Safety::kFromLossOfPower);
  if (!written.ok()) {
    // Opened anew it says which of the files it needs.
    if (changes) database_.Doubt();
    return written;
  }
  if (!changes) return written;
  MayPark("RocksStore, a file less");
  for (const SessionUid& uid : uids) file_of_.erase(uid);
  if (file.has_value()) file_of_.emplace(uids.front(), *file);
  for (const SnapshotFile& gone : old) files_.Remove(gone);
  MayPark("RocksStore, files removed");
  return written;
}

absl::Status RocksSessionStore::PutChanges(
    std::span<const StoredChange> changes) {
  rocksdb::WriteBatch batch;
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWritable());
  for (const auto& [session, tail] : changes) {
    const rocksdb::Slice key = KeyOf(session.card.uid);
    batch.Put(database_.sessions(), key, EncodeStored(session));
    if (tail.has_value()) batch.Put(database_.tails(), key, *tail);
  }
  return database_.Write(batch, RocksDatabase::Safety::kFromKill);
}

absl::StatusOr<StoredState> RocksSessionStore::Read(const SessionUid& uid) {
  StoredState state;
  const MutexLock lock(mutex_);
  if (!database_.is_open()) {
    STEADYSTATE_RETURN_IF_ERROR(database_.CheckWorks("be read"));
  }
  const rocksdb::ReadOptions options;
  const auto file = file_of_.find(uid);
  rocksdb::Status found;
  if (file != file_of_.end()) {
    absl::StatusOr<std::string> snapshot = files_.Read(file->second);
    if (absl::IsUnavailable(snapshot.status())) {
      return StoreUnavailable("be read", snapshot.status().message());
    }
    STEADYSTATE_ASSIGN_OR_RETURN(state.snapshot, std::move(snapshot));
  } else {
    found = database_->Get(options, database_.snapshots(), KeyOf(uid),
                           &state.snapshot);
  }
  if (found.ok()) {
    found = database_->Get(options, database_.tails(), KeyOf(uid), &state.tail);
    if (found.ok() || found.IsNotFound()) return state;
  }
  if (found.IsNotFound() || found.IsCorruption() || found.IsPathNotFound()) {
    return MakeError(
        ErrorReason::kSnapshotCorrupt,
        absl::StrCat("the session's snapshot in the store is lost: ",
                     found.ToString(), "; delete the session"),
        {{"what", found.ToString()}});
  }
  return StoreUnavailable("be read", found.ToString());
}

absl::Status RocksSessionStore::Remove(std::span<const SessionUid> uids) {
  rocksdb::WriteBatch batch;
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWritable());
  for (const SessionUid& uid : uids) {
    batch.Delete(database_.sessions(), KeyOf(uid));
    batch.Delete(database_.snapshots(), KeyOf(uid));
    batch.Delete(database_.tails(), KeyOf(uid));
  }
  return WriteOver(uids, std::nullopt, batch);
}

absl::Status RocksSessionStore::ForEachExpired(
    const std::function<void(ExpiredId expired)>& each) {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWorks("be read"));
  const std::unique_ptr<rocksdb::Iterator> at(
      database_->NewIterator(rocksdb::ReadOptions(), database_.expired()));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    absl::StatusOr<ExpiredId> expired =
        DecodeExpired(ViewOf(at->key()), ViewOf(at->value()));
    if (expired.ok()) {
      each(*std::move(expired));
    } else {
      LogError("expired session left out",
               {{"error", expired.status().message()}});
    }
  }
  return WholeList(at->status());
}

absl::Status RocksSessionStore::PutExpired(std::span<const ExpiredId> expired) {
  rocksdb::WriteBatch batch;
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWritable());
  for (const auto& [name, time] : expired) {
    if (time.has_value()) {
      batch.Put(database_.expired(), name, EncodeExpiry(*time));
    } else {
      batch.Delete(database_.expired(), name);
    }
  }
  return database_.Write(batch, RocksDatabase::Safety::kFromKill);
}

absl::Status RocksSessionStore::Sync() {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWritable());
  return database_.Sync();
}

// By files: what the database writes stays until it is compacted. It writes
// each snapshot twice, into its log and into its tables.
absl::Status RocksSessionStore::Try(absl::string_view snapshot) {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(database_.CheckWritable());
  const int times = snapshot.size() > options_.snapshot_file_bytes ? 1 : 2;
  for (int i = 0; i < times; ++i) {
    const absl::StatusOr<SnapshotFile> written = files_.Write(snapshot);
    if (!written.ok()) {
      return StoreUnavailable("be written", written.status().message());
    }
    files_.Remove(*written);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RocksStore::Check(const std::string& directory) {
  // Whether it may be damaged is Open's to say.
  STEADYSTATE_RETURN_IF_ERROR(
      CheckDirectory(directory, OurFormat(ROCKSDB_MAJOR, ROCKSDB_MINOR),
                     /*allow_damage=*/true));
  return DatabaseLock::Take(directory, *rocksdb::Env::Default()).status();
}

absl::StatusOr<std::unique_ptr<SessionStore>> RocksStore::Open(
    const RocksStoreOptions& options) {
  auto store = std::make_unique<RocksSessionStore>(options);
  STEADYSTATE_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace steadystate
