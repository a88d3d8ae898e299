#ifndef STEADYSTATE_SERVER_STORE_ROCKS_DATABASE_H_
#define STEADYSTATE_SERVER_STORE_ROCKS_DATABASE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "server/store/file_calls.h"
#include "server/store/rocks_look.h"
#include "server/store/store_files.h"
#include "server/store/written_note.h"

namespace steadystate {

// UNAVAILABLE / STORE_UNAVAILABLE, with when it is worth another try.
absl::Status StoreUnavailable(absl::string_view doing, absl::string_view why);

// The database in a store's directory. After an error it is got going again: in
// place, or by opening it anew, at most once a second. Thread-compatible.
class RocksDatabase {
 public:
  struct Options {
    std::string directory;  // of the store
    ModelOfStore model;     // this server's
    rocksdb::Env* env = nullptr;
    StoreFiles* files = nullptr;  // those of the directory, as `env` has them
    FileCalls* calls = nullptr;
    bool allow_damage = false;  // go on with what can be read
  };
  // What the store does whenever it has been opened; else it cannot be.
  using Opened = std::function<rocksdb::Status()>;

  // What it is lent outlives it.
  RocksDatabase(Options options, Opened opened);
  ~RocksDatabase();
  RocksDatabase(const RocksDatabase&) = delete;
  RocksDatabase& operator=(const RocksDatabase&) = delete;

  // Makes the directory the store's, and opens it. Errors as of
  // RocksStore::Open. Call before all else.
  absl::Status Open();

  // Gets it going again after an error, if it is time to try: UNAVAILABLE, what
  // was to be done included.
  absl::Status CheckWorks(absl::string_view doing);
  // The same before something is written: UNAVAILABLE also if its files have
  // been removed, which it would not notice.
  absl::Status CheckWritable();
  // Has it been opened? Then it can be read, also after an error.
  bool is_open() const { return database_ != nullptr; }

  // What is written is there after a kill, and all that was written so far
  // after a loss of power, too. UNAVAILABLE: it may be there or not.
  enum class Safety : uint8_t { kFromKill, kFromLossOfPower };
  absl::Status Write(rocksdb::WriteBatch& batch, Safety safety);
  // What was written is there after a loss of power, too.
  absl::Status Sync();
  // Something beside it, which belongs to it, could not be written.
  absl::Status WriteFailed(std::string why);
  // What it has is not known: it is opened anew before anything else is done.
  void Doubt() { in_doubt_ = true; }

  // REQUIRES: it is open.
  rocksdb::DB& operator*() { return *database_; }
  rocksdb::DB* operator->() { return database_.get(); }
  // Its column families: what describes sessions, their snapshots and tails,
  // which snapshots are in files, and which sessions have expired.
  rocksdb::ColumnFamilyHandle* sessions() const { return handles_[1]; }
  rocksdb::ColumnFamilyHandle* snapshots() const { return handles_[2]; }
  rocksdb::ColumnFamilyHandle* tails() const { return handles_[3]; }
  rocksdb::ColumnFamilyHandle* in_files() const { return handles_[4]; }
  rocksdb::ColumnFamilyHandle* expired() const { return handles_[5]; }

 private:
  rocksdb::DBOptions DatabaseOptionsHere() const;
  absl::Status Check();
  absl::Status Lost(absl::string_view what) const;
  rocksdb::Status OpenFamilies(const rocksdb::DBOptions& options);
  rocksdb::Status OpenChecked();
  rocksdb::Status OpenAnew();
  // Of how many sessions.
  rocksdb::Status GiveUpDamaged(size_t& given_up);
  absl::Status Failed(const rocksdb::Status& why);
  absl::Status NameModel();
  void NoteWritten(Safety safety);
  void Close();

  const Options options_;
  const Opened opened_;
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  bool in_doubt_ = false;
  // Its own work in the background has met something that is damaged.
  bool damaged_ = false;
  // That cannot be helped: no more work in the background.
  bool without_compactions_ = false;
  // Of its own log earlier files are missing, or shorter, and are given up.
  bool lacks_logs_ = false;
  // An operation has failed: what the database said, and when it is tried
  // again.
  std::string failure_;
  std::chrono::steady_clock::time_point retry_;
  // How much there is, or must be before it is opened.
  Written written_;
  WrittenNote note_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROCKS_DATABASE_H_
