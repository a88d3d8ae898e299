#ifndef STEADYSTATE_SERVER_STORE_WRITTEN_NOTE_H_
#define STEADYSTATE_SERVER_STORE_WRITTEN_NOTE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/base/logging.h"
#include "server/store/file_calls.h"

namespace steadystate {

// What lists the other files of a database.
struct Manifest {
  uint64_t number = 0;  // 0: none
  uint64_t bytes = 0;
};

// How far something has been written that only grows: a file, in bytes, or a
// database, in writes.
struct Written {
  uint64_t which = 0;      // the file, if there may be several
  uint64_t written = 0;    // there when the process is killed
  uint64_t synced = 0;     // there after a loss of power, too
  Manifest manifest = {};  // of a database; there after a loss of power, too
};

// Says in a small file how far something beside it has been written, so that
// the next process can tell what a kill, or a loss of power, has cut off from
// what has been damaged since: whatever the note says is there, or was lost.
//
// The note itself is not synced each time: after a loss of power it may be an
// older one, and then says less. Thread-compatible.
class WrittenNote {
 public:
  // `calls`: lent.
  WrittenNote(std::string path, FileCalls& calls)
      : path_(std::move(path)), calls_(calls) {}
  ~WrittenNote();
  WrittenNote(const WrittenNote&) = delete;
  WrittenNote& operator=(const WrittenNote&) = delete;

  // What must be there of what another process has written: of `which`, so
  // much; and of the manifest, if there is one.
  struct Least {
    uint64_t which = 0;
    uint64_t there = 0;
    Manifest manifest = {};
  };
  // Nothing if there is no note, or none that can be read.
  std::optional<Least> Read() const;

  // Another file is begun, or less is there than was: no earlier note is found
  // from now on, also after a loss of power. UNAVAILABLE, with what the system
  // said.
  absl::Status Begin(const Written& what);
  // More is there. If that cannot be noted, the note says less. REQUIRES:
  // Begin has been called.
  void More(const Written& what);

 private:
  bool Write(const Written& what);

  const std::string path_;
  FileCalls& calls_;
  int file_ = -1;
  LogLimiter limiter_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_WRITTEN_NOTE_H_
