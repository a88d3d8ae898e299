#ifndef STEADYSTATE_SERVER_STORE_ROUND_LOG_H_
#define STEADYSTATE_SERVER_STORE_ROUND_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/mutex.h"
#include "server/store/file_calls.h"
#include "server/store/file_list.h"
#include "server/store/held_directory.h"
#include "server/store/written_note.h"

namespace steadystate {

// A log of numbered rounds (RoundFrame) in the files of a directory, each of
// which is named after the first round that may be in it. What is in a file
// that another follows is whole, and synced, and a list says how much that is
// (FileList). Of the last a note says how far it was written (WrittenNote):
// what comes after that, of a write that was cut short, or of one that a loss
// of power took, ends with the last whole round.
//
// Errors are UNAVAILABLE / STORE_UNAVAILABLE. After one the log goes on in a
// new file: what is in the old one is never written again. While another
// directory is in its place, or none, nothing is begun, synced or removed.
// Thread-safe; a call of Append does not wait for one of Sync.
class RoundLog {
 public:
  // A file is full when it has so much.
  static constexpr uint64_t kFileBytes = uint64_t{16} << 20;
  // What all files have at most: snapshots that fail must not fill a disk.
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

  struct Options {
    std::string directory;  // made if it is not there; its parent must be
    FileCalls* calls = &FileCalls::System();  // lent
    uint64_t file_bytes = kFileBytes;
    const HeldDirectory* store = nullptr;  // in which it lies; lent
    // Rounds that are damaged are left out, and those that follow are read.
    bool allow_damage = false;
  };
  // DATA_LOSS if a file is missing, or one that another follows is shorter than
  // it was.
  static absl::StatusOr<std::unique_ptr<RoundLog>> Open(Options options);
  ~RoundLog();
  RoundLog(const RoundLog&) = delete;
  RoundLog& operator=(const RoundLog&) = delete;

  // Calls `each` for every round from this number on that was there at the
  // call, in order, and maybe for some below; lent. DATA_LOSS, at the first one
  // that is damaged, or cannot be read: then nothing is to be changed, so that
  // it can be repaired. REQUIRES: nobody calls Drop meanwhile.
  absl::Status ForEach(
      uint64_t from,
      const std::function<void(uint64_t round, absl::string_view content)>&
          each) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds a round. REQUIRES: numbers ascend, also over those found there. After
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
  // A file that is not written any more.
  struct Complete {
    uint64_t bytes = 0;
    uint64_t synced = 0;
    bool found = false;  // as another process left it, and nobody synced it yet
  };
  using Files = std::map<uint64_t, Complete>;  // by their first rounds
  explicit RoundLog(Options options);

  absl::Status CheckPlace() const;
  absl::Status FindFiles();
  absl::Status CheckFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Lacks(uint64_t first, uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string PathOf(uint64_t first_round) const;
  using Each = std::function<void(uint64_t round, absl::string_view content)>;
  absl::Status ReadFile(uint64_t first, uint64_t size, bool last,
                        const Each& each) const;
  std::optional<uint64_t> LeastOf(uint64_t first, bool last) const;
  absl::Status BeginFile(uint64_t round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ListFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Unlist(const std::vector<uint64_t>& files)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndFile() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WriteAll(absl::string_view bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t EndOf(Files::const_iterator file) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Failed(absl::string_view doing, absl::string_view why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CutFailed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::string& directory_ = options_.directory;
  FileCalls& calls_;
  HeldDirectory place_;
  std::optional<WrittenNote::Least> found_;  // what the note said at first

  mutable Mutex mutex_;
  Files complete_ ABSL_GUARDED_BY(mutex_);
  FileList list_ ABSL_GUARDED_BY(mutex_);  // of them
  // The one that is written; null: the next round begins one. Shared with Sync.
  std::shared_ptr<File> current_ ABSL_GUARDED_BY(mutex_);
  Written written_ ABSL_GUARDED_BY(mutex_);  // of it
  WrittenNote note_ ABSL_GUARDED_BY(mutex_);
  // One that failed, until what is not whole of it is gone, and where it is.
  std::shared_ptr<File> failed_ ABSL_GUARDED_BY(mutex_);
  Written of_failed_ ABSL_GUARDED_BY(mutex_);
  std::string frame_ ABSL_GUARDED_BY(mutex_);  // reused
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_ROUND_LOG_H_
