#include "server/store/rocks_store.h"

#include <chrono>
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
#include "server/store/rocks_options.h"
#include "server/store/round_log.h"
#include "server/store/snapshot_files.h"
#include "server/store/store_format.h"
#include "server/store/stored_form.h"

namespace steadystate {
namespace {

// Until a store that failed is tried again.
constexpr absl::Duration kRetry = absl::Seconds(1);

std::chrono::steady_clock::time_point Now() {
  return std::chrono::steady_clock::now();
}

constexpr char kModelKey[] = "model";
constexpr char kFingerprintKey[] = "fingerprint";

absl::Status Unavailable(absl::string_view doing, absl::string_view why) {
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat("the store of sessions cannot ", doing, ": ",
                                why, "; try again"),
                   {}, kRetry);
}

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
        files_(absl::StrCat(options_.directory, "/snapshots"),
               options_.file_system != nullptr
                   ? options_.file_system
                   : rocksdb::FileSystem::Default()) {
    if (options_.file_system != nullptr) {
      env_ = rocksdb::NewCompositeEnv(options_.file_system);
    }
  }
  ~RocksSessionStore() override {
    const MutexLock lock(mutex_);
    Close();
  }

  absl::Status Open();

  absl::Status ForEach(
      const std::function<void(StoredSession session)>& each) override;
  absl::Status Put(const StoredSession& session, absl::string_view snapshot,
                   absl::string_view tail) override;
  absl::Status PutTails(
      std::span<const std::pair<StoredSession, std::string>> tails) override;
  absl::StatusOr<StoredState> Read(const SessionUid& uid) override;
  absl::Status Remove(std::span<const SessionUid> uids) override;
  absl::Status Sync() override;
  absl::Status Try(absl::string_view snapshot) override;

  // The log lies in files of its own: a round in a database would wait for
  // the snapshots that are written there.
  absl::Status ForEachRound(
      const std::function<void(uint64_t round, absl::string_view content)>&
          each) override {
    return log_->ForEach(each);
  }
  absl::Status AppendRound(uint64_t round, absl::string_view content) override {
    return log_->Append(round, content);
  }
  absl::Status SyncRounds() override { return log_->Sync(); }
  bool CanDropRounds(uint64_t below) override { return log_->CanDrop(below); }
  absl::Status DropRounds(uint64_t below) override { return log_->Drop(below); }
  uint64_t RoundBytes() override { return log_->bytes(); }

 private:
  rocksdb::Status OpenDatabase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Close() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckModel() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckWorks(absl::string_view doing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  enum class Safety : uint8_t { kFromKill, kFromLossOfPower };
  absl::Status Write(rocksdb::WriteBatch& batch,
                     Safety safety = Safety::kFromKill)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteFailed(std::string why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  rocksdb::Status FindFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TuneCollection() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteOver(std::span<const SessionUid> uids,
                         const std::optional<SnapshotFile>& file,
                         rocksdb::WriteBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RocksStoreOptions options_;
  std::unique_ptr<rocksdb::Env> env_;  // null: the machine's
  std::unique_ptr<RoundLog> log_;      // after Open
  Mutex mutex_;
  std::unique_ptr<rocksdb::DB> database_ ABSL_GUARDED_BY(mutex_);
  rocksdb::ColumnFamilyHandle* sessions_ ABSL_GUARDED_BY(mutex_) = nullptr;
  rocksdb::ColumnFamilyHandle* snapshots_ ABSL_GUARDED_BY(mutex_) = nullptr;
  rocksdb::ColumnFamilyHandle* tails_ ABSL_GUARDED_BY(mutex_) = nullptr;
  rocksdb::ColumnFamilyHandle* in_files_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_ ABSL_GUARDED_BY(mutex_);
  // A write has failed: what the database said, and when it is tried again.
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point retry_ ABSL_GUARDED_BY(mutex_);

  // Of the snapshots in the database, which share is collected, and how much
  // has been put there since that was looked at.
  double collected_share_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t put_bytes_ ABSL_GUARDED_BY(mutex_) = 0;

  SnapshotFiles files_ ABSL_GUARDED_BY(mutex_);
  // Whose snapshots are in files, as the database has it.
  std::map<SessionUid, SnapshotFile> file_of_ ABSL_GUARDED_BY(mutex_);
  // A write has failed that was to change that: the database, opened anew, says
  // which of the files it needs.
  bool files_in_doubt_ ABSL_GUARDED_BY(mutex_) = false;
};

absl::Status RocksSessionStore::Open() {
  const std::string& directory = options_.directory;
  STEADYSTATE_RETURN_IF_ERROR(
      ClaimDirectory(directory, ROCKSDB_MAJOR, ROCKSDB_MINOR));
  const MutexLock lock(mutex_);
  const rocksdb::Status opened = OpenDatabase();
  if (opened.IsIOError() &&
      opened.ToString().find("lock") != std::string::npos) {
    return WrongDirectory(directory,
                          "is in use by another server: give each its own");
  }
  if (!opened.ok()) {
    return WrongDirectory(
        directory, absl::StrCat("cannot be opened: ", opened.ToString()));
  }
  STEADYSTATE_RETURN_IF_ERROR(CheckModel());
  STEADYSTATE_ASSIGN_OR_RETURN(
      log_, RoundLog::Open({.directory = directory + "/rounds",
                            .calls = options_.calls,
                            .file_bytes = options_.log_file_bytes,
                            .allow_damage = options_.allow_damage}));
  return absl::OkStatus();
}

rocksdb::Status RocksSessionStore::OpenDatabase() {
  rocksdb::DBOptions options = DatabaseOptions();
  if (env_ != nullptr) options.env = env_.get();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, FamilyOptions()},
      {"sessions", FamilyOptions()},
      {"snapshots", BlobFamilyOptions()},
      {"tails", BlobFamilyOptions()},
      {"in_files", FamilyOptions()}};
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(
      options, options_.directory, families, &handles_, &database);
  if (!status.ok()) return status;
  database_.reset(database);
  sessions_ = handles_[1];
  snapshots_ = handles_[2];
  tails_ = handles_[3];
  in_files_ = handles_[4];
  const rocksdb::Status found = FindFiles();
  if (!found.ok()) {
    Close();
    return found;
  }
  collected_share_ = CollectedShare(0);
  TuneCollection();
  return found;
}

// The share that is collected follows the store's size, by and large: telling
// the database writes a file.
void RocksSessionStore::TuneCollection() {
  constexpr double kApart = 1.5;
  put_bytes_ = 0;
  uint64_t bytes = 0;
  database_->GetIntProperty(
      snapshots_, rocksdb::DB::Properties::kTotalBlobFileSize, &bytes);
  const double share = CollectedShare(bytes);
  if (share < collected_share_ * kApart && share > collected_share_ / kApart) {
    return;
  }
  const rocksdb::Status set = database_->SetOptions(
      snapshots_,
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
        database_->NewIterator(rocksdb::ReadOptions(), in_files_));
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
  files_in_doubt_ = !opened.ok();
  return opened.ok() ? rocksdb::Status::OK()
                     : rocksdb::Status::IOError(SliceOf(opened.message()));
}

void RocksSessionStore::Close() {
  if (database_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* const handle : handles_) {
    database_->DestroyColumnFamilyHandle(handle);
  }
  handles_.clear();
  // What a database that failed says to that is known already.
  database_->Close().PermitUncheckedError();
  database_.reset();
}

absl::Status RocksSessionStore::CheckModel() {
  std::string fingerprint;
  const rocksdb::Status found =
      database_->Get(rocksdb::ReadOptions(), kFingerprintKey, &fingerprint);
  if (found.IsNotFound()) {
    rocksdb::WriteBatch batch;
    batch.Put(kModelKey, options_.model);
    batch.Put(kFingerprintKey, options_.fingerprint);
    return Write(batch);
  }
  if (!found.ok()) return Unavailable("be read", found.ToString());
  if (fingerprint == options_.fingerprint) return absl::OkStatus();
  std::string model;
  database_->Get(rocksdb::ReadOptions(), kModelKey, &model)
      .PermitUncheckedError();
  return WrongDirectory(
      options_.directory,
      absl::StrCat("has the sessions of model '", model, "' with fingerprint ",
                   fingerprint, "; this is '", options_.model, "' with ",
                   options_.fingerprint,
                   ": give each model a store of its own"));
}

// Gets a database that failed going again, if it is time to try.
absl::Status RocksSessionStore::CheckWorks(absl::string_view doing) {
  if (database_ != nullptr && failure_.empty()) return absl::OkStatus();
  if (Now() < retry_) return Unavailable(doing, failure_);
  retry_ = Now() + absl::ToChronoNanoseconds(kRetry);
  rocksdb::Status status = database_ == nullptr || files_in_doubt_
                               ? rocksdb::Status::Aborted()
                               : database_->Resume();
  if (!status.ok()) {
    Close();
    status = OpenDatabase();
  }
  if (!status.ok()) {
    failure_ = status.ToString();
    return Unavailable(doing, failure_);
  }
  LogInfo("store works again", {{"after", failure_}});
  failure_.clear();
  return absl::OkStatus();
}

absl::Status RocksSessionStore::Write(rocksdb::WriteBatch& batch,
                                      Safety safety) {
  rocksdb::WriteOptions options;
  options.sync = safety == Safety::kFromLossOfPower;
  const rocksdb::Status written = database_->Write(options, &batch);
  return written.ok() ? absl::OkStatus() : WriteFailed(written.ToString());
}

absl::Status RocksSessionStore::WriteFailed(std::string why) {
  failure_ = std::move(why);
  retry_ = Now() + absl::ToChronoNanoseconds(kRetry);
  LogError("store failed", {{"error", failure_}});
  return Unavailable("be written", failure_);
}

absl::Status RocksSessionStore::ForEach(
    const std::function<void(StoredSession session)>& each) {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be read"));
  const std::unique_ptr<rocksdb::Iterator> at(
      database_->NewIterator(rocksdb::ReadOptions(), sessions_));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    absl::StatusOr<StoredSession> session = DecodeStored(ViewOf(at->value()));
    if (session.ok()) {
      each(*std::move(session));
    } else {
      LogError("stored session left out",
               {{"error", session.status().message()}});
    }
  }
  if (at->status().ok()) return absl::OkStatus();
  return Unavailable("be read", at->status().ToString());
}

absl::Status RocksSessionStore::Put(const StoredSession& session,
                                    absl::string_view snapshot,
                                    absl::string_view tail) {
  const std::string card = EncodeStored(session);
  rocksdb::WriteBatch batch;
  const SessionUid& uid = session.card.uid;
  const rocksdb::Slice key = KeyOf(uid);
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  std::optional<SnapshotFile> file;
  if (snapshot.size() > options_.snapshot_file_bytes) {
    absl::StatusOr<SnapshotFile> written = files_.Write(snapshot);
    if (!written.ok()) {
      return WriteFailed(std::string(written.status().message()));
    }
    file = *written;
    MayPark("RocksStore::Put, with a file");
  }
  batch.Put(sessions_, key, card);
  if (file.has_value()) {
    batch.Delete(snapshots_, key);
    batch.Put(in_files_, key, file->ToBytes());
  } else {
    batch.Put(snapshots_, key, SliceOf(snapshot));
  }
  if (tail.empty()) {
    batch.Delete(tails_, key);
  } else {
    batch.Put(tails_, key, SliceOf(tail));
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
    if (!file.has_value()) batch.Delete(in_files_, KeyOf(uid));
  }
  const bool changes = file.has_value() || !old.empty();
  // A loss of power must not leave a database that needs files which are gone.
  const absl::Status written =
      Write(batch, old.empty() ? Safety::kFromKill : Safety::kFromLossOfPower);
  if (!written.ok()) {
    files_in_doubt_ = files_in_doubt_ || changes;
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

absl::Status RocksSessionStore::PutTails(
    std::span<const std::pair<StoredSession, std::string>> tails) {
  rocksdb::WriteBatch batch;
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  for (const auto& [session, bodies] : tails) {
    const rocksdb::Slice key = KeyOf(session.card.uid);
    batch.Put(sessions_, key, EncodeStored(session));
    batch.Put(tails_, key, bodies);
  }
  return Write(batch);
}

absl::StatusOr<StoredState> RocksSessionStore::Read(const SessionUid& uid) {
  StoredState state;
  const MutexLock lock(mutex_);
  if (database_ == nullptr) STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be read"));
  const rocksdb::ReadOptions options;
  const auto file = file_of_.find(uid);
  rocksdb::Status found;
  if (file != file_of_.end()) {
    absl::StatusOr<std::string> snapshot = files_.Read(file->second);
    if (absl::IsUnavailable(snapshot.status())) {
      return Unavailable("be read", snapshot.status().message());
    }
    STEADYSTATE_ASSIGN_OR_RETURN(state.snapshot, std::move(snapshot));
  } else {
    found = database_->Get(options, snapshots_, KeyOf(uid), &state.snapshot);
  }
  if (found.ok()) {
    found = database_->Get(options, tails_, KeyOf(uid), &state.tail);
    if (found.ok() || found.IsNotFound()) return state;
  }
  if (found.IsNotFound() || found.IsCorruption()) {
    return MakeError(
        ErrorReason::kSnapshotCorrupt,
        absl::StrCat("the session's snapshot in the store is lost: ",
                     found.ToString(), "; delete the session"),
        {{"what", found.ToString()}});
  }
  return Unavailable("be read", found.ToString());
}

absl::Status RocksSessionStore::Remove(std::span<const SessionUid> uids) {
  rocksdb::WriteBatch batch;
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  for (const SessionUid& uid : uids) {
    batch.Delete(sessions_, KeyOf(uid));
    batch.Delete(snapshots_, KeyOf(uid));
    batch.Delete(tails_, KeyOf(uid));
  }
  return WriteOver(uids, std::nullopt, batch);
}

absl::Status RocksSessionStore::Sync() {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  const rocksdb::Status synced = database_->SyncWAL();
  if (synced.ok()) return absl::OkStatus();
  failure_ = synced.ToString();
  retry_ = Now() + absl::ToChronoNanoseconds(kRetry);
  return Unavailable("be written", failure_);
}

// By files: what the database writes stays until it is compacted. It writes
// each snapshot twice, into its log and into its tables.
absl::Status RocksSessionStore::Try(absl::string_view snapshot) {
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  const int times = snapshot.size() > options_.snapshot_file_bytes ? 1 : 2;
  for (int i = 0; i < times; ++i) {
    const absl::StatusOr<SnapshotFile> written = files_.Write(snapshot);
    if (!written.ok()) {
      return Unavailable("be written", written.status().message());
    }
    files_.Remove(*written);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> RocksStore::Open(
    const RocksStoreOptions& options) {
  auto store = std::make_unique<RocksSessionStore>(options);
  STEADYSTATE_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace steadystate
