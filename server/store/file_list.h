#ifndef STEADYSTATE_SERVER_STORE_FILE_LIST_H_
#define STEADYSTATE_SERVER_STORE_FILE_LIST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "server/store/file_calls.h"

namespace steadystate {

// Lists, in a small file, which files are complete beside it, and how long they
// are, so that the next process can tell that one is missing, or shorter than
// it was. Whatever a list names was there, and synced, before it; and is
// removed after another list has taken its place. Thread-compatible.
class FileList {
 public:
  // `calls`: lent.
  FileList(std::string directory, FileCalls& calls)
      : directory_(std::move(directory)), calls_(calls) {}

  // How many bytes each file has, by its number.
  using Sizes = std::map<uint64_t, uint64_t>;
  // What was listed. Nothing if there is no list, or none that can be read.
  Sizes Read();
  // Lists these instead, also after a loss of power. UNAVAILABLE, with what the
  // system said: then nobody knows which of the two is there.
  absl::Status Write(const Sizes& sizes);

 private:
  bool Replace(const Sizes& sizes);
  bool WritePart(const std::string& path, const Sizes& sizes);
  std::string Path() const { return directory_ + "/FILES"; }

  const std::string directory_;
  FileCalls& calls_;
  std::optional<Sizes> listed_;  // if that is known
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_STORE_FILE_LIST_H_
