#include "server/base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace steadystate {
Descriptor::~Descriptor() { Close(); }

Descriptor::Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    fd_ = other.Release();
  }
  return *this;
}

int Descriptor::Release() { return std::exchange(fd_, -1); }

void Descriptor::Close() {
  if (valid()) close(Release());
}

WakeUp::WakeUp() : event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void WakeUp::Signal() const {
  const uint64_t one = 1;
  // It fails only where the event has been signalled 2^64 - 2 times.
  [[maybe_unused]] const ssize_t written =
      write(event_.get(), &one, sizeof(one));
}

void WakeUp::Clear() const {
  uint64_t count = 0;
  // It fails where nothing has been signalled.
  [[maybe_unused]] const ssize_t got =
      read(event_.get(), &count, sizeof(count));
}

uint64_t DescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

uint64_t HardDescriptorLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : 0;
}

size_t OpenDescriptors() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  size_t entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  // ".", ".." and the descriptor that read the folder.
  return entries < 3 ? 0 : entries - 3;
}

void OpenStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int flags = fcntl(fd, F_GETFD);
    const bool inherited = flags != -1 && (flags & FD_CLOEXEC) == 0;
    if (inherited) continue;
    // What has the number by now was opened as libraries were loaded: gRPC
    // tries whether there are eventfds, and leaves one open.
    close(fd);
    // It gets the lowest number that is free, which is this one.
    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

namespace {

std::string ReadSmallFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

size_t AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<size_t>(CPU_COUNT(&set));
  }
  return std::thread::hardware_concurrency();
}

// Version 1 keeps quota and period in two files.
std::optional<double> QuotaOfFolder(const std::string& folder) {
  if (auto quota = ParseCpuMax(ReadSmallFile(folder + "/cpu.max"))) {
    return quota;
  }
  return ParseCpuMax(
      absl::StrCat(ReadSmallFile(folder + "/cpu.cfs_quota_us"), " ",
                   ReadSmallFile(folder + "/cpu.cfs_period_us")));
}

std::optional<double> Smaller(std::optional<double> a,
                              std::optional<double> b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  return std::min(*a, *b);
}

}  // namespace

std::optional<double> ParseCpuMax(absl::string_view text) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  double quota = 0;
  double period = 0;
  if (words.size() < 2 || !absl::SimpleAtod(words[0], &quota) ||
      !absl::SimpleAtod(words[1], &period) || !(quota > 0) || !(period > 0)) {
    return std::nullopt;
  }
  return quota / period;
}

namespace {

// What a cgroup's folder says of a limit, if it says anything.
using LimitOfFolder = std::optional<double> (*)(const std::string& folder);

std::optional<double> SmallestAlong(const std::string& root,
                                    absl::string_view cgroup_path,
                                    LimitOfFolder limit) {
  std::optional<double> smallest = limit(root);
  std::string folder = root;
  for (absl::string_view part :
       absl::StrSplit(cgroup_path, '/', absl::SkipEmpty())) {
    absl::StrAppend(&folder, "/", part);
    smallest = Smaller(smallest, limit(folder));
  }
  return smallest;
}

// Of this process.
std::optional<double> CgroupLimit(absl::string_view controller,
                                  LimitOfFolder limit) {
  std::optional<double> smallest;
  const std::string memberships = ReadSmallFile("/proc/self/cgroup");
  for (absl::string_view line :
       absl::StrSplit(memberships, '\n', absl::SkipEmpty())) {
    // hierarchy:controllers:path; version 2 has "0::path".
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[1].empty()) {
      smallest =
          Smaller(smallest, SmallestAlong("/sys/fs/cgroup", fields[2], limit));
    } else if (absl::StrContains(fields[1], controller)) {
      smallest = Smaller(
          smallest, SmallestAlong(absl::StrCat("/sys/fs/cgroup/", fields[1]),
                                  fields[2], limit));
    }
  }
  return smallest;
}

// Version 1 has another name for it.
std::optional<double> MemoryOfFolder(const std::string& folder) {
  for (const char* const file : {"/memory.max", "/memory.limit_in_bytes"}) {
    double bytes = 0;
    const std::string text = ReadSmallFile(folder + file);
    // "max" is no number.
    if (absl::SimpleAtod(text, &bytes) && bytes > 0) return bytes;
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> CgroupCpuQuota(const std::string& root,
                                     absl::string_view cgroup_path) {
  return SmallestAlong(root, cgroup_path, QuotaOfFolder);
}

std::optional<double> CgroupMemory(const std::string& root,
                                   absl::string_view cgroup_path) {
  return SmallestAlong(root, cgroup_path, MemoryOfFolder);
}

size_t UsableCpus() {
  const std::optional<double> quota = CgroupLimit("cpu", QuotaOfFolder);
  size_t cpus = AffinityCpus();
  if (quota.has_value() && *quota < static_cast<double>(cpus)) {
    cpus = static_cast<size_t>(*quota);
  }
  return std::max<size_t>(cpus, 1);
}

std::optional<uint64_t> UsableMemory() {
  struct sysinfo machine {};
  std::optional<double> bytes;
  if (sysinfo(&machine) == 0) {
    bytes = static_cast<double>(machine.totalram) *
            static_cast<double>(machine.mem_unit);
  }
  bytes = Smaller(bytes, CgroupLimit("memory", MemoryOfFolder));
  if (!bytes.has_value()) return std::nullopt;
  return static_cast<uint64_t>(*bytes);
}

uint64_t AnonymousMemory() {
  // Sizes in pages: all, what is in memory, and of that what is in files.
  const std::string text = ReadSmallFile("/proc/self/statm");
  const std::vector<absl::string_view> pages =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  uint64_t in_memory = 0;
  uint64_t in_files = 0;
  if (pages.size() < 3 || !absl::SimpleAtoi(pages[1], &in_memory) ||
      !absl::SimpleAtoi(pages[2], &in_files) || in_files > in_memory) {
    return 0;
  }
  return (in_memory - in_files) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace steadystate
