#include "server/store/rocks_database.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "rocksdb/env.h"
#include "rocksdb/version.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/status_macros.h"
#include "server/store/rocks_options.h"
#include "server/store/store_format.h"

namespace steadystate {
namespace {

// Until a store that failed is tried again.
constexpr absl::Duration kRetry = absl::Seconds(1);

std::chrono::steady_clock::time_point Now() {
  return std::chrono::steady_clock::now();
}

absl::Status CannotBeOpened(const std::string& directory,
                            const rocksdb::Status& why) {
  if (why.IsCorruption() || why.IsPathNotFound()) {
    return DatabaseDamaged(directory, why.ToString());
  }
  return WrongDirectory(directory,
                        absl::StrCat("cannot be opened: ", why.ToString()));
}

}  // namespace

absl::Status StoreUnavailable(absl::string_view doing, absl::string_view why) {
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat("the store of sessions cannot ", doing, ": ",
                                why, "; try again"),
                   {}, kRetry);
}

RocksDatabase::RocksDatabase(Options options, Opened opened)
    : options_(std::move(options)),
      opened_(std::move(opened)),
      note_(absl::StrCat(options_.directory, "/WRITTEN"), *options_.calls) {}

RocksDatabase::~RocksDatabase() {
  if (database_ == nullptr) return;
  Close();
  // It may have grown since something was written last.
  written_.manifest = options_.files->manifest();
  note_.More(written_);
}

absl::Status RocksDatabase::Open() {
  const std::string& directory = options_.directory;
  const StoreFormat ours = OurFormat(ROCKSDB_MAJOR, ROCKSDB_MINOR);
  STEADYSTATE_RETURN_IF_ERROR(
      CheckDirectory(directory, ours, options_.allow_damage));
  {
    // Nothing is changed in a directory that another server uses, or that is
    // another model's, or damaged.
    STEADYSTATE_ASSIGN_OR_RETURN(const std::unique_ptr<DatabaseLock> alone,
                                 DatabaseLock::Take(directory, *options_.env));
    const absl::Status held = options_.files->directory().Hold();
    if (!held.ok()) return StoreUnavailable("be opened", held.message());
    if (const auto least = note_.Read()) {
      written_.written = least->there;
      written_.manifest = least->manifest;
    }
    STEADYSTATE_RETURN_IF_ERROR(Check());
    // Before a later version of RocksDB writes there.
    STEADYSTATE_RETURN_IF_ERROR(ClaimDirectory(directory, ours));
  }
  const rocksdb::Status opened = OpenChecked();
  return opened.ok() ? NameModel() : CannotBeOpened(directory, opened);
}

rocksdb::DBOptions RocksDatabase::DatabaseOptionsHere() const {
  rocksdb::DBOptions options = DatabaseOptions();
  options.env = options_.env;
  return options;
}

// Whether it is this model's, and has all that was written there. Before it is
// opened: that throws away what comes after a record that is damaged, and the
// files that only such records name.
absl::Status RocksDatabase::Check() {
  const std::string& directory = options_.directory;
  STEADYSTATE_RETURN_IF_ERROR(options_.files->directory().Check());
  STEADYSTATE_RETURN_IF_ERROR(
      CheckCurrent(directory, *options_.env, options_.allow_damage));
  if (const auto lost =
          LostOfManifest(directory, *options_.env, written_.manifest)) {
    STEADYSTATE_RETURN_IF_ERROR(Lost(*lost));
  }
  DatabaseLook look;
  const rocksdb::Status looked =
      LookInto(directory, DatabaseOptionsHere(), look);
  lacks_logs_ = LacksLogs(looked);
  // What there is can be read only by opening it without them.
  if (lacks_logs_) {
    return Lost(absl::StripSuffix(looked.ToString(), "."));
  }
  if (!looked.ok()) return CannotBeOpened(directory, looked);
  STEADYSTATE_RETURN_IF_ERROR(
      CheckModel(directory, look.model, options_.model));
  if (look.writes >= written_.written) return absl::OkStatus();
  return Lost(absl::StrCat("of ", written_.written, " writes to its database ",
                           look.writes, " can be read"));
}

absl::Status RocksDatabase::Lost(absl::string_view what) const {
  if (options_.allow_damage) {
    LogError("writes to the store are lost",
             {{"directory", options_.directory}, {"what", what}});
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      "--store ", options_.directory, " is damaged: ", what,
      ". It has been left as it is: put a sound copy of it in its place, or "
      "keep a copy of this one and start once with --allow_damaged_store. Then "
      "the rest is lost: sessions may be what they were earlier, or not be "
      "there, and some that were deleted may be back"));
}

rocksdb::Status RocksDatabase::OpenFamilies(const rocksdb::DBOptions& options) {
  rocksdb::ColumnFamilyOptions blobs = BlobFamilyOptions();
  rocksdb::ColumnFamilyOptions others = FamilyOptions();
  // Not before what is damaged is out of the way (GiveUpDamaged).
  blobs.disable_auto_compactions = damaged_;
  others.disable_auto_compactions = without_compactions_;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, others},
      {"sessions", others},
      {"snapshots", blobs},
      {"tails", blobs},
      {"in_files", others},
      {"expired", others}};
  rocksdb::DB* database = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(
      options, options_.directory, families, &handles_, &database);
  if (status.ok()) database_.reset(database);
  return status;
}

rocksdb::Status RocksDatabase::OpenChecked() {
  rocksdb::DBOptions options = DatabaseOptionsHere();
  rocksdb::Status status;
  if (lacks_logs_) {
    // It forgets which ones it had.
    options.track_and_verify_wals_in_manifest = false;
    status = OpenFamilies(options);
    Close();
    options.track_and_verify_wals_in_manifest = true;
    lacks_logs_ = !status.ok();
  }
  if (status.ok()) status = OpenFamilies(options);
  if (!status.ok()) return status;
  written_.written = database_->GetLatestSequenceNumber();
  written_.synced = std::min(written_.synced, written_.written);
  written_.manifest = options_.files->manifest();
  const absl::Status noted = note_.Begin(written_);
  status = noted.ok() ? opened_()
                      : rocksdb::Status::IOError(std::string(noted.message()));
  if (!status.ok()) Close();
  return status;
}

rocksdb::Status RocksDatabase::OpenAnew() {
  rocksdb::Status status = OpenChecked();
  if (!status.ok() || !damaged_ || without_compactions_) return status;
  size_t given_up = 0;
  status = GiveUpDamaged(given_up);
  if (status.ok() && given_up > 0) {
    damaged_ = false;
    return status;
  }
  Close();
  if (!status.ok() && !status.IsCorruption()) return status;
  // What is damaged is nothing that a session has, or cannot be got rid of.
  without_compactions_ = true;
  LogError("the store goes on without compactions",
           {{"directory", options_.directory},
            {"error", failure_},
            {"what_to_do",
             "it frees no room any more: export the sessions that matter, and "
             "begin with an empty directory"}});
  return OpenChecked();
}

// The room of old snapshots is freed by writing anew those among them that are
// in use. One that cannot be read would stop that, and with it the database,
// for all: it goes. What describes its session stays: it is refused.
rocksdb::Status RocksDatabase::GiveUpDamaged(size_t& given_up) {
  std::vector<std::string> damaged;
  rocksdb::WriteBatch batch;
  const std::unique_ptr<rocksdb::Iterator> at(
      database_->NewIterator(rocksdb::ReadOptions(), sessions()));
  rocksdb::ReadOptions once;
  once.fill_cache = false;
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    rocksdb::PinnableSlice snapshot;
    rocksdb::PinnableSlice tail;
    if (!database_->Get(once, snapshots(), at->key(), &snapshot)
             .IsCorruption() &&
        !database_->Get(once, tails(), at->key(), &tail).IsCorruption()) {
      continue;
    }
    damaged.push_back(at->key().ToString());
    batch.Delete(snapshots(), at->key());
    batch.Delete(tails(), at->key());
  }
  if (!at->status().ok()) return at->status();
  given_up = damaged.size();
  if (damaged.empty()) return rocksdb::Status::OK();
  LogError("damaged snapshots are given up, so that the store can go on",
           {{"sessions", damaged.size()}});
  rocksdb::WriteOptions synced;
  synced.sync = true;
  rocksdb::Status status = database_->Write(synced, &batch);
  if (status.ok()) NoteWritten(Safety::kFromLossOfPower);
  for (rocksdb::ColumnFamilyHandle* const family : {snapshots(), tails()}) {
    if (status.ok()) status = database_->Flush(rocksdb::FlushOptions(), family);
    // Until none of them is left below its removal.
    for (const std::string& key : damaged) {
      const rocksdb::Slice only = key;
      if (!status.ok()) break;
      status = database_->CompactRange(rocksdb::CompactRangeOptions(), family,
                                       &only, &only);
    }
  }
  return status.ok() ? database_->EnableAutoCompaction({snapshots(), tails()})
                     : status;
}

// Who opens it first says whose it is.
absl::Status RocksDatabase::NameModel() {
  ModelOfStore found;
  const rocksdb::Status read = ReadModel(*database_, found);
  if (!read.ok()) return StoreUnavailable("be read", read.ToString());
  if (!found.fingerprint.empty()) {
    return CheckModel(options_.directory, found, options_.model);
  }
  rocksdb::WriteBatch batch;
  WriteModel(options_.model, batch);
  return Write(batch, Safety::kFromKill);
}

void RocksDatabase::Close() {
  if (database_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* const handle : handles_) {
    database_->DestroyColumnFamilyHandle(handle);
  }
  handles_.clear();
  // What a database that failed says to that is known already.
  database_->Close().PermitUncheckedError();
  database_.reset();
}

absl::Status RocksDatabase::CheckWorks(absl::string_view doing) {
  if (database_ != nullptr && failure_.empty()) return absl::OkStatus();
  if (Now() < retry_) return StoreUnavailable(doing, failure_);
  retry_ = Now() + absl::ToChronoNanoseconds(kRetry);
  const bool resumed = database_ != nullptr && !in_doubt_ && !damaged_ &&
                       database_->Resume().ok();
  if (!resumed) {
    Close();
    absl::Status opened = Check();
    if (opened.ok()) {
      const rocksdb::Status status = OpenAnew();
      if (!status.ok()) opened = CannotBeOpened(options_.directory, status);
    }
    if (!opened.ok()) {
      failure_ = std::string(opened.message());
      return StoreUnavailable(doing, failure_);
    }
    in_doubt_ = false;
  }
  LogInfo("store works again", {{"after", failure_}});
  failure_.clear();
  return absl::OkStatus();
}

absl::Status RocksDatabase::CheckWritable() {
  const absl::Status there = options_.files->directory().Check();
  if (!there.ok()) return StoreUnavailable("be written", there.message());
  STEADYSTATE_RETURN_IF_ERROR(CheckWorks("be written"));
  // Another takes its place now and then, but one is always there.
  const std::string path = options_.directory + "/CURRENT";
  if (access(path.c_str(), F_OK) == 0) return absl::OkStatus();
  return StoreUnavailable(
      "be written",
      absl::StrCat(path, ": ", std::strerror(errno),
                   "; if the directory was moved or removed, put it back: "
                   "what the server still reads is gone when it ends"));
}

absl::Status RocksDatabase::Write(rocksdb::WriteBatch& batch, Safety safety) {
  rocksdb::WriteOptions options;
  options.sync = safety == Safety::kFromLossOfPower;
  const rocksdb::Status written = database_->Write(options, &batch);
  if (!written.ok()) return Failed(written);
  NoteWritten(safety);
  return absl::OkStatus();
}

absl::Status RocksDatabase::WriteFailed(std::string why) {
  failure_ = std::move(why);
  retry_ = Now() + absl::ToChronoNanoseconds(kRetry);
  LogError("store failed", {{"error", failure_}});
  return StoreUnavailable("be written", failure_);
}

absl::Status RocksDatabase::Failed(const rocksdb::Status& why) {
  damaged_ = damaged_ || why.IsCorruption();
  return WriteFailed(why.ToString());
}

absl::Status RocksDatabase::Sync() {
  const rocksdb::Status synced = database_->SyncWAL();
  if (synced.ok()) {
    NoteWritten(Safety::kFromLossOfPower);
    return absl::OkStatus();
  }
  return Failed(synced);
}

// All that has been written so far is there.
void RocksDatabase::NoteWritten(Safety safety) {
  written_.written = database_->GetLatestSequenceNumber();
  if (safety == Safety::kFromLossOfPower) written_.synced = written_.written;
  written_.manifest = options_.files->manifest();
  note_.More(written_);
}

}  // namespace steadystate
