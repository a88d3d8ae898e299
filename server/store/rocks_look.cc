#include "server/store/rocks_look.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rocksdb/write_batch.h"
#include "server/base/error.h"
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
