#include "server/store/rocks_look.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rocksdb/write_batch.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/store/rocks_options.h"
#include "server/store/store_format.h"

namespace steadystate {
namespace {

constexpr char kModelKey[] = "model";
constexpr char kFingerprintKey[] = "fingerprint";

// What it has under the key, if that is there.
rocksdb::Status ReadKey(rocksdb::DB& database, const char* key,
                        std::string& value) {
  const rocksdb::Status read =
      database.Get(rocksdb::ReadOptions(), key, &value);
  return read.IsNotFound() ? rocksdb::Status::OK() : read;
}

}  // namespace

rocksdb::Status ReadModel(rocksdb::DB& database, ModelOfStore& model) {
  const rocksdb::Status read =
      ReadKey(database, kFingerprintKey, model.fingerprint);
  return read.ok() ? ReadKey(database, kModelKey, model.name) : read;
}

void WriteModel(const ModelOfStore& model, rocksdb::WriteBatch& batch) {
  batch.Put(kModelKey, model.name);
  batch.Put(kFingerprintKey, model.fingerprint);
}

absl::Status CheckModel(const std::string& directory, const ModelOfStore& found,
                        const ModelOfStore& ours) {
  if (found.fingerprint.empty() || found.fingerprint == ours.fingerprint) {
    return absl::OkStatus();
  }
  return WrongDirectory(
      directory,
      absl::StrCat("has the sessions of model '", found.name,
                   "' with fingerprint ", found.fingerprint, "; this is '",
                   ours.name, "' with ", ours.fingerprint,
                   ": give each model a store of its own"));
}

absl::Status DatabaseDamaged(absl::string_view directory,
                             absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat("--store ", directory, " is damaged: ", what,
                   ". It has been left as it is: put a sound copy of it in its "
                   "place. --allow_damaged_store does not help with files of "
                   "the database's own"));
}

uint64_t ManifestNumber(absl::string_view name) {
  uint64_t number = 0;
  const bool is_one = absl::ConsumePrefix(&name, "MANIFEST-") &&
                      absl::SimpleAtoi(name, &number);
  return is_one ? number : 0;
}

std::optional<std::string> LostOfManifest(const std::string& directory,
                                          rocksdb::Env& env,
                                          const Manifest& least) {
  std::string name;
  uint64_t bytes = 0;
  if (!rocksdb::ReadFileToString(&env, directory + "/CURRENT", &name).ok()) {
    return std::nullopt;
  }
  absl::StripTrailingAsciiWhitespace(&name);
  if (least.number == 0 || ManifestNumber(name) != least.number ||
      !env.GetFileSize(absl::StrCat(directory, "/", name), &bytes).ok() ||
      bytes >= least.bytes) {
    return std::nullopt;
  }
  return absl::StrCat("of ", least.bytes, " bytes of its ", name, " ", bytes,
                      " are there");
}

namespace {

// What a directory has of a database.
struct DatabaseFiles {
  std::string manifest;  // the latest; empty: none
  bool used = false;     // more than a first start that was cut short leaves
};

DatabaseFiles FilesAmong(const std::vector<std::string>& names) {
  DatabaseFiles files;
  uint64_t latest = 0;
  for (const std::string& name : names) {
    const uint64_t number = ManifestNumber(name);
    if (number > latest) {
      latest = number;
      files.manifest = name;
    }
    files.used = files.used || absl::EndsWith(name, ".sst") ||
                 absl::EndsWith(name, ".blob") || absl::EndsWith(name, ".log");
  }
  return files;
}

}  // namespace

absl::Status CheckCurrent(const std::string& directory, rocksdb::Env& env,
                          bool mend) {
  const std::string current = directory + "/CURRENT";
  if (!env.FileExists(current).IsNotFound()) return absl::OkStatus();
  std::vector<std::string> names;
  const rocksdb::Status listed = env.GetChildren(directory, &names);
  if (!listed.ok()) return DatabaseDamaged(directory, listed.ToString());
  const DatabaseFiles files = FilesAmong(names);
  if (!files.used) return absl::OkStatus();
  if (files.manifest.empty()) {
    return DatabaseDamaged(directory, "CURRENT and MANIFEST-* are missing");
  }
  if (!mend) {
    return absl::DataLossError(absl::StrCat(
        "--store ", directory,
        " is damaged: CURRENT is missing. It has been left as it is: put a "
        "sound copy of it in its place, or keep a copy of this one and start "
        "once with --allow_damaged_store, which writes CURRENT anew, with the "
        "name of the latest manifest, ",
        files.manifest));
  }
  const rocksdb::Status written = rocksdb::WriteStringToFile(
      &env, files.manifest + "\n", current, /*should_sync=*/true);
  if (!written.ok()) return DatabaseDamaged(directory, written.ToString());
  LogError("CURRENT was missing in the store, and has been written anew",
           {{"directory", directory}, {"manifest", files.manifest}});
  return absl::OkStatus();
}

rocksdb::Status LookInto(const std::string& directory,
                         const rocksdb::DBOptions& options,
                         DatabaseLook& look) {
  const rocksdb::Status there = options.env->FileExists(directory + "/CURRENT");
  if (there.IsNotFound()) return rocksdb::Status::OK();
  if (!there.ok()) return there;
  // Of the others nothing is looked at, nor taken into memory.
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {rocksdb::kDefaultColumnFamilyName, FamilyOptions()}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  rocksdb::Status status = rocksdb::DB::OpenForReadOnly(
      options, directory, families, &handles, &opened);
  if (!status.ok()) return status;
  const std::unique_ptr<rocksdb::DB> database(opened);
  look.writes = database->GetLatestSequenceNumber();
  status = ReadModel(*database, look.model);
  for (rocksdb::ColumnFamilyHandle* const handle : handles) {
    database->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  return status;
}

// The text alone tells. Where it is another one, --allow_damaged_store does not
// help.
bool LacksLogs(const rocksdb::Status& opened) {
  return opened.IsCorruption() && absl::StrContains(opened.ToString(), "WAL");
}

absl::StatusOr<std::unique_ptr<DatabaseLock>> DatabaseLock::Take(
    const std::string& directory, rocksdb::Env& env) {
  rocksdb::FileLock* lock = nullptr;
  const rocksdb::Status taken = env.LockFile(directory + "/LOCK", &lock);
  if (taken.ok()) {
    return std::unique_ptr<DatabaseLock>(new DatabaseLock(env, lock));
  }
  const std::string why = taken.ToString();
  if (absl::StrContains(why, "While open a file for lock")) {
    return MakeError(ErrorReason::kStoreUnavailable,
                     absl::StrCat("the store of sessions cannot be opened: ",
                                  why, "; try again"));
  }
  return WrongDirectory(
      directory,
      absl::StrCat("is in use by another server: give each its own (", why,
                   ")"));
}

DatabaseLock::~DatabaseLock() { env_.UnlockFile(lock_).PermitUncheckedError(); }

}  // namespace steadystate
