#ifndef STEADYSTATE_SERVER_STORE_ROUND_LOG_H_
#define STEADYSTATE_SERVER_STORE_ROUND_LOG_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/mutex.h"

namespace steadystate {

// The system's calls that a log makes, as far as they can fail in ways that
// matter: a test may let them. Thread-safe.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  // A new file, for appending. As open(2), write(2), fdatasync(2) and
  // ftruncate(2): -1 with errno.
  virtual int Create(const char* path);
  virtual ssize_t Write(int file, const char* bytes, size_t count);
  virtual int Sync(int file);
  virtual int Truncate(int file, off_t size);

  static FileCalls& System();
};

// A log of numbered rounds in the files of a directory, each of which is named
// after the first round that may be in it:
//
//   round = bytes of what follows the checksum (u32) | CRC32C of that (u32)
//           | number (u64) | content
//
// Numbers little-endian. A file ends with its last whole round: what comes
// after, of a write that was cut short, counts for nothing. Every file but the
// last was synced before the next was begun.
//
// Errors are UNAVAILABLE / STORE_UNAVAILABLE. After one the log goes on in a
// new file: what is in the old one is never written again. Thread-safe; a call
// of Append does not wait for one of Sync.
class RoundLog {
 public:
  // A file is full when it has so much.
  static constexpr uint64_t kFileBytes = uint64_t{16} << 20;
  // What all files have at most: snapshots that fail must not fill a disk.
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

  // Of the directory, which is made if it is not there. `calls`: lent.
  static absl::StatusOr<std::unique_ptr<RoundLog>> Open(
      std::string directory, FileCalls& calls = FileCalls::System(),
      uint64_t file_bytes = kFileBytes);
  ~RoundLog();
  RoundLog(const RoundLog&) = delete;
  RoundLog& operator=(const RoundLog&) = delete;

  // Calls `each` for every round that was there when the log was opened, in
  // order, and maybe for later ones; lent. Where a file is damaged the rest of
  // it is left out, and said so in the server's log.
  absl::Status ForEach(
      const std::function<void(uint64_t round, absl::string_view content)>&
          each) const;

  // Adds a round. REQUIRES: numbers ascend, also over those of ForEach. After
  // an error it may be there or not.
  absl::Status Append(uint64_t round, absl::string_view content);
  // All that was appended before the call is there after a loss of power, too.
  absl::Status Sync();

  // Removes files that have no round from this one on.
  absl::Status Drop(uint64_t below);
  // Would that remove anything?
  bool CanDrop(uint64_t below) const;

  // Of all files.
  uint64_t bytes() const;

 private:
  struct File;
  RoundLog(std::string directory, FileCalls& calls, uint64_t file_bytes)
      : directory_(std::move(directory)),
        calls_(calls),
        file_bytes_(file_bytes) {}

  absl::Status FindFiles();
  std::string PathOf(uint64_t first_round) const;
  absl::Status BeginFile(uint64_t round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteAll(absl::string_view bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t OldestEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Failed(absl::string_view doing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string directory_;
  FileCalls& calls_;
  const uint64_t file_bytes_;

  mutable Mutex mutex_;
  // Those that are complete: their sizes by the first round they may have.
  std::map<uint64_t, uint64_t> complete_ ABSL_GUARDED_BY(mutex_);
  // The one that is written; null: the next round begins one. Shared with Sync.
  std::shared_ptr<File> current_ ABSL_GUARDED_BY(mutex_);
  uint64_t current_first_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t current_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string frame_ ABSL_GUARDED_BY(mutex_);  // reused
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROUND_LOG_H_
