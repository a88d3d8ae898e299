#include "server/store/file_calls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace steadystate {

int FileCalls::Create(const char* path) {
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
}

ssize_t FileCalls::Write(int file, const char* bytes, size_t count) {
  return write(file, bytes, count);
}

ssize_t FileCalls::ReadAt(int file, char* to, size_t count, off_t at) {
  return pread(file, to, count, at);
}

// What nobody can open any more is not there for the next process.
int FileCalls::Sync(int file) {
  struct stat found {};
  if (fdatasync(file) != 0 || fstat(file, &found) != 0) return -1;
  if (found.st_nlink > 0) return 0;
  errno = ENOENT;
  return -1;
}

int FileCalls::Truncate(int file, off_t size) { return ftruncate(file, size); }

uint64_t FileCalls::Boot() {
  static const uint64_t boot = [] {
    // A random uuid, of which a half is enough.
    std::string text;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
    std::erase(text, '-');
    uint64_t number = 0;
    const bool read =
        absl::SimpleHexAtoi(absl::string_view(text).substr(0, 16), &number);
    return read ? number : 0;
  }();
  return boot;
}

FileCalls& FileCalls::System() {
  static FileCalls system;
  return system;
}

int SyncDirectory(const std::string& directory, FileCalls& calls) {
  const int file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return -1;
  const int synced = calls.Sync(file);
  close(file);
  return synced;
}

FileBytes ReadFileBytes(const std::string& path, FileCalls& calls,
                        bool past_errors) {
  constexpr size_t kAtOnce = size_t{1} << 20;
  constexpr size_t kPage = 4096;
  FileBytes read;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0) {
    read.error = errno;
    if (file >= 0) close(file);
    return read;
  }
  read.bytes.resize(static_cast<size_t>(info.st_size));
  size_t count = kAtOnce;
  size_t at = 0;
  while (at < read.bytes.size()) {
    const ssize_t got = calls.ReadAt(file, &read.bytes[at],
                                     std::min(count, read.bytes.size() - at),
                                     static_cast<off_t>(at));
    if (got == 0) break;
    if (got > 0) {
      at += static_cast<size_t>(got);
      continue;
    }
    if (errno == EINTR) continue;
    if (read.error == 0) {
      read.error = errno;
      read.error_at = at;
    }
    if (!past_errors) break;
    // From here on page by page: those that can be read are.
    if (count > kPage) {
      count = kPage - at % kPage;
      continue;
    }
    at = std::min(read.bytes.size(), at + count);
    count = kPage;
  }
  read.bytes.resize(at);
  close(file);
  return read;
}

}  // namespace steadystate
