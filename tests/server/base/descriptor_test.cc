// Goal: no file gets the number of a standard descriptor. Method: processes
// that close some, and say by their exit code what they see then.
#include "server/base/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace steadystate {
namespace {

std::string FileOf(int fd) {
  char target[256];
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(),
                                target, sizeof(target));
  return size < 0 ? "" : std::string(target, static_cast<size_t>(size));
}

// Ends the process with 0 if those that were closed are /dev/null, which can
// neither be read nor written as they could, and the others stay as they were.
// `flags`: a file is opened with them before.
[[noreturn]] void CloseAndOpen(std::initializer_list<int> closed,
                               std::optional<int> flags = std::nullopt) {
  std::string expected[3];
  for (int fd = 0; fd < 3; ++fd) expected[fd] = FileOf(fd);
  for (const int fd : closed) {
    close(fd);
    expected[fd] = "/dev/null";
  }
  if (flags.has_value()) open("/proc/self/stat", *flags);
  OpenStandardDescriptors();
  bool ok = true;
  for (int fd = 0; fd < 3; ++fd) ok = ok && FileOf(fd) == expected[fd];
  for (const int fd : closed) {
    char byte = 'x';
    const ssize_t done = fd == 0 ? read(fd, &byte, 1) : write(fd, &byte, 1);
    ok = ok && done == -1 && errno == EBADF;
  }
  std::_Exit(ok ? 0 : 1);
}

TEST(StandardDescriptorsTest, OpensThoseThatAreClosed) {
  const auto succeeded = testing::ExitedWithCode(0);
  EXPECT_EXIT(CloseAndOpen({}), succeeded, "");
  EXPECT_EXIT(CloseAndOpen({0}), succeeded, "");
  EXPECT_EXIT(CloseAndOpen({1}), succeeded, "");
  EXPECT_EXIT(CloseAndOpen({2}), succeeded, "");
  EXPECT_EXIT(CloseAndOpen({0, 2}), succeeded, "");
  EXPECT_EXIT(CloseAndOpen({0, 1, 2}), succeeded, "");
  // A file that was opened meanwhile makes way.
  EXPECT_EXIT(CloseAndOpen({0}, O_CLOEXEC), succeeded, "");
  EXPECT_EXIT(CloseAndOpen({1, 2}, O_CLOEXEC), succeeded, "");
}

}  // namespace
}  // namespace steadystate
