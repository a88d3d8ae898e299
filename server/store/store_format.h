#ifndef STEADYSTATE_SERVER_STORE_STORE_FORMAT_H_
#define STEADYSTATE_SERVER_STORE_STORE_FORMAT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// FAILED_PRECONDITION: "--store DIRECTORY WHAT".
absl::Status WrongDirectory(absl::string_view directory,
                            const absl::AlphaNum& what);

// Makes a directory one of this server's stores, if it is not there or empty,
// or is a store that this server, with this version of RocksDB, can read: its
// FORMAT file says so from then on. Else FAILED_PRECONDITION, and nothing is
// changed; UNAVAILABLE if the file cannot be written.
absl::Status ClaimDirectory(const std::string& directory, int rocksdb_major,
                            int rocksdb_minor);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_STORE_FORMAT_H_
