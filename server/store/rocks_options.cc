#include "server/store/rocks_options.h"

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/strings/ascii.h"
#include "rocksdb/env.h"
#include "rocksdb/listener.h"
#include "rocksdb/table.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

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

}  // namespace

rocksdb::DBOptions DatabaseOptions() {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.info_log = std::make_shared<RocksLog>();
  options.listeners.push_back(std::make_shared<NoAutomaticRecovery>());
  // Whatever a loss of power left, up to the first record that is not whole.
  // Else an earlier log that is missing, or shorter than it was, is read as one
  // in which nothing was written.
  options.track_and_verify_wals_in_manifest = true;
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

rocksdb::ColumnFamilyOptions BlobFamilyOptions() {
  rocksdb::ColumnFamilyOptions options = FamilyOptions();
  options.enable_blob_files = true;
  options.min_blob_size = 4096;
  options.enable_blob_garbage_collection = true;
  options.blob_file_size = uint64_t{32} << 20;  // what is collected at least
  options.blob_garbage_collection_age_cutoff = CollectedShare(0);
  options.blob_garbage_collection_force_threshold = 0.5;
  return options;
}

double CollectedShare(uint64_t bytes) {
  // A fixed share of a large store is much more than what is put there between
  // two compactions: with a quarter, 8 GB of snapshots of 18 KB cost six times
  // their bytes, most of that copies of the old ones. With three times what is
  // put there, two thirds of what is looked at may be in use.
  constexpr double kMost = 0.25;
  constexpr double kCollected = 3.0 * kBytesOfCompaction;
  return std::min(
      kMost, kCollected / static_cast<double>(std::max<uint64_t>(bytes, 1)));
}

}  // namespace steadystate
