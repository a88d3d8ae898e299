#include "server/store/rocks_store.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"
#include "rocksdb/version.h"
#include "rocksdb/write_batch.h"
#include "server/base/binary.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/mutex.h"
#include "server/base/status_macros.h"
#include "server/store/round_log.h"
#include "server/store/store_format.h"

namespace steadystate {
namespace {

// The version of what describes a session.
constexpr uint8_t kSessionFormat = 4;

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

std::string Encode(const StoredSession& session) {
  std::string bytes;
  BinaryWriter writer(bytes);
  writer.Number(kSessionFormat);
  writer.Number(session.position);
  writer.Number(static_cast<uint8_t>(session.other_numerics ? 1 : 0));
  writer.Number(static_cast<uint8_t>(session.durability));
  writer.Number(session.round);
  writer.Number(session.repeatable_from);
  writer.Number(static_cast<uint8_t>(session.prefix.has_value() ? 1 : 0));
  if (session.prefix.has_value()) {
    for (const uint64_t word : *session.prefix) writer.Number(word);
  }
  writer.Number(static_cast<uint8_t>(session.tail.has_value() ? 1 : 0));
  if (session.tail.has_value()) {
    writer.Number(session.tail->end);
    writer.Number(session.tail->numerics);
    writer.Number(session.tail->through_round);
    writer.Number(static_cast<uint8_t>((session.tail->damaged ? 1 : 0) +
                                       (session.tail->remade ? 2 : 0)));
  }
  WriteCard(session.card, bytes);
  return bytes;
}

absl::StatusOr<StoredSession> Decode(absl::string_view bytes) {
  BinaryReader reader(bytes);
  StoredSession session;
  const auto format = reader.Number<uint8_t>();
  session.position = reader.Number<uint64_t>();
  session.other_numerics = reader.Number<uint8_t>() != 0;
  // The first format had no log.
  if (format >= 2) {
    session.durability = static_cast<Durability>(reader.Number<uint8_t>());
    session.round = reader.Number<uint64_t>();
    // Nor did the second one say this.
    session.repeatable_from =
        format >= 3 ? reader.Number<uint64_t>() : session.position;
    if (format >= 4 && reader.Number<uint8_t>() != 0) {
      for (uint64_t& word : session.prefix.emplace()) {
        word = reader.Number<uint64_t>();
      }
    }
    if (reader.Number<uint8_t>() != 0) {
      StoredTail& tail = session.tail.emplace();
      tail.end = reader.Number<uint64_t>();
      tail.numerics = reader.Number<uint64_t>();
      tail.through_round = reader.Number<uint64_t>();
      const auto flags = reader.Number<uint8_t>();
      tail.damaged = (flags & 1) != 0;
      tail.remade = (flags & 2) != 0;
    }
  }
  if (!reader.ok() || format == 0 || format > kSessionFormat) {
    return absl::DataLossError("a stored session's description is unreadable");
  }
  STEADYSTATE_RETURN_IF_ERROR(ReadCard(reader, session.card));
  return session;
}

// RocksDB's own file of messages would be on the same disk, and a message that
// cannot be written there ends the process where Debian builds it with
// assertions.
class RocksLog final : public rocksdb::Logger {
 public:
  RocksLog() : Logger(rocksdb::WARN_LEVEL) {}
  using Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char line[512];
    vsnprintf(line, sizeof(line), format, arguments);
    LogLimited(limiter_, LogLevel::kWarning, "store",
               {{"rocksdb", absl::StripAsciiWhitespace(line)}});
  }

 private:
  LogLimiter limiter_;
};

// The store gets the database going again by itself.
class NoAutomaticRecovery final : public rocksdb::EventListener {
 public:
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/,
                            rocksdb::Status /*error*/,
                            bool* automatic) override {
    *automatic = false;
  }
};

rocksdb::DBOptions DatabaseOptions() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.info_log = std::make_shared<RocksLog>();
  options.listeners.push_back(std::make_shared<NoAutomaticRecovery>());
  // Whatever a loss of power left, up to the first record that is not whole.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // What is read at the next start.
  options.max_total_wal_size = uint64_t{64} << 20;
  options.max_background_jobs = 2;
  options.max_open_files = 256;
  return options;
}

rocksdb::ColumnFamilyOptions FamilyOptions() {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = size_t{16} << 20;
  options.max_write_buffer_number = 3;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

// Snapshots are large, and replaced as a whole.
rocksdb::ColumnFamilyOptions SnapshotOptions() {
  rocksdb::ColumnFamilyOptions options = FamilyOptions();
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 0.25;
  options.blob_garbage_collection_force_threshold = 0.5;
  return options;
}

class RocksSessionStore final : public SessionStore {
 public:
  explicit RocksSessionStore(RocksStoreOptions options)
      : options_(std::move(options)) {
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
  absl::Status Write(rocksdb::WriteBatch& batch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RocksStoreOptions options_;
  std::unique_ptr<rocksdb::Env> env_;  // null: the machine's
  std::unique_ptr<RoundLog> log_;      // after Open
  Mutex mutex_;
  std::unique_ptr<rocksdb::DB> database_ ABSL_GUARDED_BY(mutex_);
  rocksdb::ColumnFamilyHandle* sessions_ ABSL_GUARDED_BY(mutex_) = nullptr;
  rocksdb::ColumnFamilyHandle* snapshots_ ABSL_GUARDED_BY(mutex_) = nullptr;
  rocksdb::ColumnFamilyHandle* tails_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_ ABSL_GUARDED_BY(mutex_);
  // A write has failed: what the database said, and when it is tried again.
  std::string failure_ ABSL_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point retry_ ABSL_GUARDED_BY(mutex_);
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
      log_, RoundLog::Open(absl::StrCat(directory, "/rounds"),
                           options_.log_calls != nullptr ? *options_.log_calls
                                                         : FileCalls::System(),
                           options_.log_file_bytes));
  return absl::OkStatus();
}

rocksdb::Status RocksSessionStore::OpenDatabase() {
  rocksdb::DBOptions options = DatabaseOptions();
  if (env_ != nullptr) options.env = env_.get();
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, FamilyOptions()},
      {"sessions", FamilyOptions()},
      {"snapshots", SnapshotOptions()},
      {"tails", SnapshotOptions()}};
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(
      options, options_.directory, families, &handles_, &database);
  if (!status.ok()) return status;
  database_.reset(database);
  sessions_ = handles_[1];
  snapshots_ = handles_[2];
  tails_ = handles_[3];
  return status;
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
  rocksdb::Status status =
      database_ == nullptr ? rocksdb::Status::Aborted() : database_->Resume();
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

absl::Status RocksSessionStore::Write(rocksdb::WriteBatch& batch) {
  const rocksdb::Status written =
      database_->Write(rocksdb::WriteOptions(), &batch);
  if (written.ok()) return absl::OkStatus();
  failure_ = written.ToString();
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
    absl::StatusOr<StoredSession> session = Decode(ViewOf(at->value()));
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
  const std::string card = Encode(session);
  rocksdb::WriteBatch batch;
  const rocksdb::Slice key = KeyOf(session.card.uid);
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  batch.Put(sessions_, key, card);
  batch.Put(snapshots_, key, SliceOf(snapshot));
  if (tail.empty()) {
    batch.Delete(tails_, key);
  } else {
    batch.Put(tails_, key, SliceOf(tail));
  }
  return Write(batch);
}

absl::Status RocksSessionStore::PutTails(
    std::span<const std::pair<StoredSession, std::string>> tails) {
  rocksdb::WriteBatch batch;
  const MutexLock lock(mutex_);
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  for (const auto& [session, bodies] : tails) {
    const rocksdb::Slice key = KeyOf(session.card.uid);
    batch.Put(sessions_, key, Encode(session));
    batch.Put(tails_, key, bodies);
  }
  return Write(batch);
}

absl::StatusOr<StoredState> RocksSessionStore::Read(const SessionUid& uid) {
  StoredState state;
  const MutexLock lock(mutex_);
  if (database_ == nullptr) STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be read"));
  const rocksdb::ReadOptions options;
  rocksdb::Status found =
      database_->Get(options, snapshots_, KeyOf(uid), &state.snapshot);
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
  return Write(batch);
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

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> RocksStore::Open(
    const RocksStoreOptions& options) {
  auto store = std::make_unique<RocksSessionStore>(options);
  STEADYSTATE_RETURN_IF_ERROR(store->Open());
  return store;
}

}  // namespace steadystate
