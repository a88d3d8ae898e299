#ifndef STEADYSTATE_TESTS_TESTING_TEMP_DIRECTORY_H_
#define STEADYSTATE_TESTS_TESTING_TEMP_DIRECTORY_H_

#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// A fresh directory that is removed, with all in it, at the end of its life.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }

  // Writes a file in it and returns its path.
  std::string Write(absl::string_view name, absl::string_view bytes) const;

 private:
  std::string path_;
};

// The whole of a file; ends the program if it cannot be read.
std::string ReadWholeFile(const std::string& path);

}  // namespace steadystate

#endif  // STEADYSTATE_TESTS_TESTING_TEMP_DIRECTORY_H_
