#ifndef STEADYSTATE_SERVER_STORE_FILE_CALLS_H_
#define STEADYSTATE_SERVER_STORE_FILE_CALLS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace steadystate {

// The system's calls that a store makes, as far as they can fail in ways that
// matter: a test may let them. Thread-safe.
class FileCalls {
 public:
  virtual ~FileCalls() = default;
  // A new file, for appending. As open(2), write(2), pread(2), fdatasync(2) and
  // ftruncate(2): -1 with errno. To sync what has been removed is an error.
  virtual int Create(const char* path);
  virtual ssize_t Write(int file, const char* bytes, size_t count);
  virtual ssize_t ReadAt(int file, char* to, size_t count, off_t at);
  virtual int Sync(int file);
  virtual int Truncate(int file, off_t size);

  // A number for as long as the machine runs: after a loss of power, or a
  // crash of the system, it is another one. 0: not known.
  virtual uint64_t Boot();

  static FileCalls& System();
};

// Makes what was created or removed in the directory last. As fdatasync(2).
int SyncDirectory(const std::string& directory, FileCalls& calls);

// What of a file could be read.
struct FileBytes {
  std::string bytes;  // zeros where they cannot be read
  int error = 0;      // the first of the system's errors, and where it was
  uint64_t error_at = 0;
};
// All of the file; up to an error, or past all of them. Not through a mapping:
// there a disk that fails ends the process.
FileBytes ReadFileBytes(const std::string& path, FileCalls& calls,
                        bool past_errors);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_FILE_CALLS_H_
