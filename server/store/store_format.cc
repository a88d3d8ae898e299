#include "server/store/store_format.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// The version of what is in the directory. 1 had no log, 2 no files of
// snapshots; both are read.
constexpr int kFormat = 3;
constexpr char kFormatFile[] = "FORMAT";

// What the directory's FORMAT file says; zeros without one.
struct Format {
  bool operator==(const Format&) const = default;

  int store = 0;
  int major = 0;
  int minor = 0;
};

Format ReadFormat(const std::string& path) {
  Format format;
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 2 && words[0] == "store") {
      (void)absl::SimpleAtoi(words[1], &format.store);
    } else if (words.size() == 3 && words[0] == "rocksdb") {
      (void)absl::SimpleAtoi(words[1], &format.major);
      (void)absl::SimpleAtoi(words[2], &format.minor);
    }
  }
  return format;
}

// Only what is whole takes the old one's place.
absl::Status WriteFormat(const std::string& path, const Format& format) {
  const std::string text = absl::StrCat("store ", format.store, "\nrocksdb ",
                                        format.major, " ", format.minor, "\n");
  const std::string part = path + ".part";
  FILE* const file = fopen(part.c_str(), "w");
  bool written = file != nullptr &&
                 fwrite(text.data(), 1, text.size(), file) == text.size() &&
                 fflush(file) == 0 && fsync(fileno(file)) == 0;
  if (file != nullptr && fclose(file) != 0) written = false;
  if (written && rename(part.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat("the store of sessions cannot be opened: ",
                                path, ": ", strerror(errno), "; try again"));
}

// Before RocksDB looks at it: an older one might spoil what a newer one wrote.
absl::Status CheckDirectory(const std::string& directory, const Format& ours) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return WrongDirectory(directory,
                          absl::StrCat("cannot be made: ", strerror(errno)));
  }
  std::error_code error;
  const bool empty = std::filesystem::is_empty(directory, error);
  if (error)
    return WrongDirectory(directory, absl::StrCat(": ", error.message()));
  if (empty) return absl::OkStatus();
  const Format found = ReadFormat(absl::StrCat(directory, "/", kFormatFile));
  if (found.store == 0) {
    return WrongDirectory(
        directory, "is no store of sessions, and not empty: give another one");
  }
  if (found.store > kFormat) {
    return WrongDirectory(
        directory,
        absl::StrCat("is of format ", found.store, ", and this server knows ",
                     kFormat, ": use a later one"));
  }
  if (std::pair(found.major, found.minor) > std::pair(ours.major, ours.minor)) {
    return WrongDirectory(
        directory,
        absl::StrCat("was written by RocksDB ", found.major, ".", found.minor,
                     ", and this server has ", ours.major, ".", ours.minor,
                     ", which may not be able to read it: use the "
                     "newer system that it was used on"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WrongDirectory(absl::string_view directory,
                            const absl::AlphaNum& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("--store ", directory, " ", what));
}

absl::Status ClaimDirectory(const std::string& directory, int rocksdb_major,
                            int rocksdb_minor) {
  const Format ours = {
      .store = kFormat, .major = rocksdb_major, .minor = rocksdb_minor};
  STEADYSTATE_RETURN_IF_ERROR(CheckDirectory(directory, ours));
  // Written first: what it does not name is not taken for a store again.
  const std::string path = absl::StrCat(directory, "/", kFormatFile);
  if (ReadFormat(path) == ours) return absl::OkStatus();
  return WriteFormat(path, ours);
}

}  // namespace steadystate
