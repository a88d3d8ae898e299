#ifndef STEADYSTATE_SERVER_STORE_ROCKS_LOOK_H_
#define STEADYSTATE_SERVER_STORE_ROCKS_LOOK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "server/store/written_note.h"

namespace steadystate {

// Whose sessions a database has.
struct ModelOfStore {
  std::string name;         // for people
  std::string fingerprint;  // the model's; empty: nobody's yet
};

// As the database has it, and how it gets there.
rocksdb::Status ReadModel(rocksdb::DB& database, ModelOfStore& model);
void WriteModel(const ModelOfStore& model, rocksdb::WriteBatch& batch);

// FAILED_PRECONDITION: the directory's is another one than this server's.
absl::Status CheckModel(const std::string& directory, const ModelOfStore& found,
                        const ModelOfStore& ours);

// DATA_LOSS, for which nothing but a sound copy helps: a file of the database's
// own cannot be read.
absl::Status DatabaseDamaged(absl::string_view directory,
                             absl::string_view what);

// Whether the file CURRENT is there, which names the database's manifest, if
// there is a database: without it that counts as new, and all that it has would
// be removed. DATA_LOSS.
//   mend  it is written anew, with the name of the latest manifest
absl::Status CheckCurrent(const std::string& directory, rocksdb::Env& env,
                          bool mend);

// The number of the manifest that has this name; 0: it is none.
uint64_t ManifestNumber(absl::string_view name);
// What of the manifest is gone, if it is the one that CURRENT names; nothing if
// all of it is there, or another one has taken its place. What it does not list
// any more would be removed when the database is opened.
std::optional<std::string> LostOfManifest(const std::string& directory,
                                          rocksdb::Env& env,
                                          const Manifest& least);

// What there is in a database.
struct DatabaseLook {
  ModelOfStore model;
  uint64_t writes = 0;  // how many can be read of all that there ever were
};

// Looks into the directory's database, if there is one, and changes nothing,
// also where opening it would: that throws away what it cannot read.
rocksdb::Status LookInto(const std::string& directory,
                         const rocksdb::DBOptions& options, DatabaseLook& look);

// Whether a database cannot be opened, nor looked into, since earlier files of
// its log are missing, or shorter than they were.
bool LacksLogs(const rocksdb::Status& opened);

// Keeps all others out of a directory's database, as one that is open does.
class DatabaseLock {
 public:
  // FAILED_PRECONDITION: another server has it; UNAVAILABLE: it cannot be
  // taken. `env` outlives it.
  static absl::StatusOr<std::unique_ptr<DatabaseLock>> Take(
      const std::string& directory, rocksdb::Env& env);
  ~DatabaseLock();
  DatabaseLock(const DatabaseLock&) = delete;
  DatabaseLock& operator=(const DatabaseLock&) = delete;

 private:
  DatabaseLock(rocksdb::Env& env, rocksdb::FileLock* lock)
      : env_(env), lock_(lock) {}

  rocksdb::Env& env_;
  rocksdb::FileLock* const lock_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROCKS_LOOK_H_
