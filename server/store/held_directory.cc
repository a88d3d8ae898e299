#include "server/store/held_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace steadystate {

HeldDirectory::~HeldDirectory() {
  if (directory_ >= 0) close(directory_);
}

bool HeldDirectory::Find(const std::string& path, Identity& found) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return false;
  found = {.device = info.st_dev, .number = info.st_ino};
  return true;
}

absl::Status HeldDirectory::Hold() {
  directory_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // The file is not opened: to close it again would give the lock away.
  if (directory_ >= 0 && Find(path_, held_) &&
      (lock_.empty() || Find(path_ + "/" + lock_, held_lock_))) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat(path_, ": ", std::strerror(errno)));
}

absl::Status HeldDirectory::Check() const {
  if (directory_ < 0) return absl::OkStatus();
  Identity found;
  if (!Find(path_, found)) {
    return absl::UnavailableError(
        absl::StrCat(path_, ": ", std::strerror(errno),
                     "; if the directory was moved or removed, put it back: "
                     "what the server still reads is gone when it ends"));
  }
  if (found != held_) {
    return absl::UnavailableError(absl::StrCat(
        path_,
        " is another directory than at the server's start, and is left alone; "
        "put the former one back, or end the server: what it still reads is "
        "gone then"));
  }
  if (lock_.empty()) return absl::OkStatus();
  if (Find(path_ + "/" + lock_, found) && found == held_lock_) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      path_, "/", lock_,
      " was removed or replaced, so another server may use the directory, and "
      "it is left alone; end this server, and start one again when no other "
      "has it"));
}

}  // namespace steadystate
