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

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/status_macros.h"

namespace steadystate {
namespace {

// The version of what is in the directory. 1 had no log, 2 no files of
// snapshots, 3 did not tell what has expired, 4 had other checksums of files, 5
// did not list the database's logs; all are read. RocksDB ends an earlier
// server's process where it finds such a list.
constexpr int kFormat = 6;
constexpr char kFormatFile[] = "FORMAT";

// What a directory may have that is none of ours and no store: the root of a
// file system has the first, and a start that was cut short leaves the others.
bool IsNothing(const std::string& name) {
  return name == "lost+found" || name == absl::StrCat(kFormatFile, kPart) ||
         name == "LOCK";
}

StoreFormat ReadFormat(const std::string& directory) {
  StoreFormat format;
  std::ifstream file(absl::StrCat(directory, "/", kFormatFile));
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() == 2 && words[0] == "store") {
      (void)absl::SimpleAtoi(words[1], &format.store);
    } else if (words.size() == 3 && words[0] == "rocksdb") {
      (void)absl::SimpleAtoi(words[1], &format.rocksdb_major);
      (void)absl::SimpleAtoi(words[2], &format.rocksdb_minor);
    }
  }
  return format;
}

// Only what is whole takes the old one's place.
absl::Status WriteFormat(const std::string& path, const StoreFormat& format) {
  const std::string text =
      absl::StrCat("store ", format.store, "\nrocksdb ", format.rocksdb_major,
                   " ", format.rocksdb_minor, "\n");
  const std::string part = path + kPart;
  FILE* const file = fopen(part.c_str(), "w");
  bool written = file != nullptr &&
                 fwrite(text.data(), 1, text.size(), file) == text.size() &&
                 fflush(file) == 0 && fsync(fileno(file)) == 0;
  if (file != nullptr && fclose(file) != 0) written = false;
  if (written && rename(part.c_str(), path.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  unlink(part.c_str());
  return MakeError(ErrorReason::kStoreUnavailable,
                   absl::StrCat("the store of sessions cannot be opened: ",
                                path, ": ", strerror(error), "; try again"));
}

absl::StatusOr<bool> IsEmpty(const std::string& directory) {
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(directory, error);
       !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    if (!IsNothing(entry->path().filename().string())) return false;
  }
  if (!error) return true;
  return WrongDirectory(directory,
                        absl::StrCat("cannot be read: ", error.message()));
}

// Whether it is a store that has lost the file. Others have a CURRENT of
// RocksDB's as well, but none of these beside it.
bool LacksFormat(const std::string& directory) {
  const auto has = [&directory](const char* name) {
    return access(absl::StrCat(directory, "/", name).c_str(), F_OK) == 0;
  };
  return has("CURRENT") && (has("WRITTEN") || has("rounds"));
}

absl::Status CheckWithoutFormat(const std::string& directory,
                                bool allow_damage) {
  STEADYSTATE_ASSIGN_OR_RETURN(const bool empty, IsEmpty(directory));
  if (empty) return absl::OkStatus();
  if (!LacksFormat(directory)) {
    return WrongDirectory(
        directory, "is no store of sessions, and not empty: give another one");
  }
  if (allow_damage) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "--store ", directory, " is damaged: ", kFormatFile,
      ", which says what versions can read it, is missing or cannot be read. "
      "It has been left as it is: put a sound copy of that file in its place, "
      "or the one of another store that the same version of the server wrote "
      "last, on the same system. If no later version has written here, keep a "
      "copy of the store and start once with --allow_damaged_store, which "
      "writes the file anew: nothing is lost then"));
}

}  // namespace

absl::Status WrongDirectory(absl::string_view directory,
                            const absl::AlphaNum& what) {
  return absl::FailedPreconditionError(
      absl::StrCat("--store ", directory, " ", what));
}

StoreFormat OurFormat(int rocksdb_major, int rocksdb_minor) {
  return {.store = kFormat,
          .rocksdb_major = rocksdb_major,
          .rocksdb_minor = rocksdb_minor};
}

// Before RocksDB looks at it: an older one might spoil what a newer one wrote.
absl::Status CheckDirectory(const std::string& directory,
                            const StoreFormat& ours, bool allow_damage) {
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return WrongDirectory(directory,
                          absl::StrCat("cannot be made: ", strerror(errno)));
  }
  const StoreFormat found = ReadFormat(directory);
  if (found.store == 0) return CheckWithoutFormat(directory, allow_damage);
  if (found.store > kFormat) {
    return WrongDirectory(
        directory,
        absl::StrCat("is of format ", found.store, ", and this server knows ",
                     kFormat, ": use a later one"));
  }
  if (std::pair(found.rocksdb_major, found.rocksdb_minor) >
      std::pair(ours.rocksdb_major, ours.rocksdb_minor)) {
    return WrongDirectory(
        directory,
        absl::StrCat("was written by RocksDB ", found.rocksdb_major, ".",
                     found.rocksdb_minor, ", and this server has ",
                     ours.rocksdb_major, ".", ours.rocksdb_minor,
                     ", which may not be able to read it: use the "
                     "newer system that it was used on"));
  }
  return absl::OkStatus();
}

absl::Status ClaimDirectory(const std::string& directory,
                            const StoreFormat& ours) {
  const StoreFormat found = ReadFormat(directory);
  if (found == ours) return absl::OkStatus();
  if (found.store == 0 && LacksFormat(directory)) {
    LogError("FORMAT was missing in the store, and is written anew",
             {{"directory", directory}});
  }
  return WriteFormat(absl::StrCat(directory, "/", kFormatFile), ours);
}

}  // namespace steadystate
