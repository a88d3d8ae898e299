// Goal: no file gets the number of a standard descriptor. Method: processes
// that close some, and say by their exit code what they see then.
//

#include "server/base/process.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/testing/temp_directory.h"

namespace steadystate::process_test {
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

TEST(ParseCpuMaxTest, ReadsQuotaOverPeriod) {
  EXPECT_EQ(ParseCpuMax("200000 100000\n"), 2.0);
  EXPECT_EQ(ParseCpuMax("50000 100000"), 0.5);
}

TEST(ParseCpuMaxTest, ReadsNoLimit) {
  for (const char* text : {"max 100000\n", "", "-1 100000", "100000", "1 0"}) {
    EXPECT_FALSE(ParseCpuMax(text).has_value()) << text;
  }
}

TEST(CgroupCpuQuotaTest, TakesTheSmallestAlongThePath) {
  const TempDirectory directory;
  const std::filesystem::path root = directory.path();
  std::filesystem::create_directories(root / "a" / "b");
  std::ofstream(root / "cpu.max") << "max 100000\n";
  std::ofstream(root / "a" / "cpu.max") << "150000 100000\n";
  std::ofstream(root / "a" / "b" / "cpu.max") << "400000 100000\n";
  EXPECT_EQ(CgroupCpuQuota(root, "/a/b"), 1.5);
  EXPECT_EQ(CgroupCpuQuota(root, "/"), std::nullopt);
  EXPECT_EQ(CgroupCpuQuota(root, "/missing"), std::nullopt);
  // Version 1 of cgroups states it in two files.
  std::filesystem::create_directories(root / "v1");
  std::ofstream(root / "v1" / "cpu.cfs_quota_us") << "300000\n";
  std::ofstream(root / "v1" / "cpu.cfs_period_us") << "100000\n";
  EXPECT_EQ(CgroupCpuQuota(root, "/v1"), 3.0);
}

TEST(CgroupMemoryTest, TakesTheSmallestAlongThePath) {
  const TempDirectory directory;
  const std::filesystem::path root = directory.path();
  std::filesystem::create_directories(root / "a" / "b");
  std::ofstream(root / "a" / "memory.max") << "1073741824\n";
  std::ofstream(root / "a" / "b" / "memory.max") << "max\n";
  EXPECT_EQ(CgroupMemory(root, "/a/b"), 1073741824.0);
  EXPECT_EQ(CgroupMemory(root, "/"), std::nullopt);
  // Version 1 of cgroups has another name for it.
  std::filesystem::create_directories(root / "v1");
  std::ofstream(root / "v1" / "memory.limit_in_bytes") << "4096\n";
  EXPECT_EQ(CgroupMemory(root, "/v1"), 4096.0);
}

TEST(MemoryTest, TellsWhatThereIsAndWhatIsTaken) {
  constexpr size_t kBytes = size_t{64} << 20;
  const uint64_t before = AnonymousMemory();
  EXPECT_GT(before, 0u);
  const std::vector<char> taken(kBytes, 1);
  // Or the compiler sees that nobody wants it.
  const char* volatile somebody = taken.data();
  EXPECT_EQ(*somebody, 1);
  EXPECT_GE(AnonymousMemory(), before + kBytes / 2);
  EXPECT_GT(UsableMemory(), AnonymousMemory());
}

TEST(UsableCpusTest, RespectsTheAffinityMask) {
  size_t pinned = 0;
  // Affinity belongs to the thread: a helper leaves the others alone.
  std::thread([&pinned] {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    ASSERT_EQ(sched_getaffinity(0, sizeof(mine), &mine), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &mine)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      break;
    }
    pinned = UsableCpus();
  }).join();
  EXPECT_EQ(pinned, 1u);
  EXPECT_GE(UsableCpus(), 1u);
}

}  // namespace
}  // namespace steadystate::process_test
