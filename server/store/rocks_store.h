#ifndef STEADYSTATE_SERVER_STORE_ROCKS_STORE_H_
#define STEADYSTATE_SERVER_STORE_ROCKS_STORE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/session/session_store.h"
#include "server/store/file_calls.h"
#include "server/store/round_log.h"

namespace rocksdb {
class FileSystem;
}

namespace steadystate {

struct RocksStoreOptions {
  std::string directory;  // made if it is not there; its parent must be
  // A store belongs to the sessions of one model.
  std::string model;        // its name, for people
  std::string fingerprint;  // the model's
  // Where its files are; null: the machine's. For tests.
  std::shared_ptr<rocksdb::FileSystem> file_system;
  // By what the log's files, and notes, are written. For tests; lent.
  FileCalls* calls = &FileCalls::System();
  // Go on with what can be read of a store that is damaged.
  bool allow_damage = false;
  uint64_t log_file_bytes = RoundLog::kFileBytes;
  // Snapshots of more bytes are files beside the database. Through a database
  // each goes twice, by its log and its memory: those of 50 MiB took 228 MB of
  // memory and 139 ms, as files 62 MB and 47 ms. Below this a file's two syncs
  // cost more than that.
  uint64_t snapshot_file_bytes = uint64_t{4} << 20;
};

// A store in a directory of this machine, in RocksDB: one column family for
// what describes the sessions, one for their snapshots and one for their tails.
// Beside it are large snapshots (SnapshotFiles), of which the database has what
// tells their files, and the log (RoundLog). Nobody else may have the directory
// open.
//
// After a write has failed the next operation first tries to get the database
// going again, in place or by opening it anew, at most once a second.
class RocksStore {
 public:
  // Whether Open may succeed, as far as can be told without a model: the
  // directory is made, nobody has it, and it is of no later version. Errors of
  // Open.
  static absl::Status Check(const std::string& directory);

  // FAILED_PRECONDITION: the directory belongs to another model, or to a later
  // version of this server or of RocksDB; to another process; or it is no
  // store. DATA_LOSS: something is gone that was written there. UNAVAILABLE: it
  // cannot be used now. Messages say what to do; the directory is as it was.
  static absl::StatusOr<std::unique_ptr<SessionStore>> Open(
      const RocksStoreOptions& options);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROCKS_STORE_H_
