#ifndef STEADYSTATE_SERVER_STORE_SNAPSHOT_FILES_H_
#define STEADYSTATE_SERVER_STORE_SNAPSHOT_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocksdb {
class FileSystem;
}

namespace steadystate {

// What a database knows of a snapshot that lies in a file beside it.
struct SnapshotFile {
  uint64_t number = 0;  // by which the file is named
  uint64_t bytes = 0;
  // Of the file's parts of 4 KiB the CRC32Cs, and of all of those the CRC32C.
  uint32_t checksum = 0;
  // It is the CRC32C of all bytes, as it was once: no more than a checksum of
  // their number, since a snapshot's sections end with their own.
  bool is_plain = false;

  bool operator==(const SnapshotFile&) const = default;

  std::string ToBytes() const;
  // Nothing if those bytes are not what ToBytes returns.
  static std::optional<SnapshotFile> FromBytes(absl::string_view bytes);
};

// Snapshots that are too large for a database, in files of a directory, one
// each. A file has the same bytes for as long as it has its name: it is written
// under another one, and its number is never given twice.
//
// Errors without a reason are what the file system said. Thread-compatible.
class SnapshotFiles {
 public:
  // Of the directory, which is made by Open.
  SnapshotFiles(std::string directory,
                std::shared_ptr<rocksdb::FileSystem> files);

  // Makes the directory if it is not there, and removes all of its snapshots
  // but those that are `needed`: what was written and never became a
  // session's. Call before anything else, and again when it is not known which
  // are. UNAVAILABLE
  absl::Status Open(const std::function<bool(uint64_t number)>& needed);

  // A new file that has the snapshot, also after a loss of power. UNAVAILABLE:
  // there is none then.
  absl::StatusOr<SnapshotFile> Write(absl::string_view snapshot);

  // What was written. UNAVAILABLE; SNAPSHOT_CORRUPT: the file is not there, or
  // not as it was written.
  absl::StatusOr<std::string> Read(const SnapshotFile& file) const;

  // One that cannot be removed is left to the next Open.
  void Remove(const SnapshotFile& file);

 private:
  std::string PathOf(uint64_t number) const;
  absl::Status WriteParts(const std::string& path, absl::string_view snapshot);
  absl::Status Place(const std::string& part, const std::string& path);
  void RemovePath(const std::string& path);

  const std::string directory_;
  const std::shared_ptr<rocksdb::FileSystem> files_;
  uint64_t last_number_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_SNAPSHOT_FILES_H_
