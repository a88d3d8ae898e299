#ifndef STEADYSTATE_SERVER_STORE_STORE_FORMAT_H_
#define STEADYSTATE_SERVER_STORE_STORE_FORMAT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Ends the name of a file that is not whole yet.
inline constexpr char kPart[] = ".part";

// FAILED_PRECONDITION: "--store DIRECTORY WHAT".
absl::Status WrongDirectory(absl::string_view directory,
                            const absl::AlphaNum& what);

// What a directory's FORMAT file says of who wrote there last.
struct StoreFormat {
  bool operator==(const StoreFormat&) const = default;

  int store = 0;  // the version of what is in the directory; 0: nothing
  int rocksdb_major = 0;
  int rocksdb_minor = 0;
};

// What this server writes with this version of RocksDB.
StoreFormat OurFormat(int rocksdb_major, int rocksdb_minor);

// Makes the directory, if it is not there, and sees whether it can be a store
// of this server's: it is empty, or is one that this server can read. Else
// FAILED_PRECONDITION, and nothing is changed. DATA_LOSS: it is a store, but
// its FORMAT file is not there.
//   allow_damage  that does not matter
absl::Status CheckDirectory(const std::string& directory,
                            const StoreFormat& ours, bool allow_damage);

// Makes a directory that was checked one of this server's stores: its FORMAT
// file says so from then on. REQUIRES: nobody else uses it. UNAVAILABLE if the
// file cannot be written.
absl::Status ClaimDirectory(const std::string& directory,
                            const StoreFormat& ours);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_STORE_FORMAT_H_
