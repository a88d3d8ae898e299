#include "server/base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
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

std::optional<double> CgroupCpuQuota(const std::string& root,
                                     absl::string_view cgroup_path) {
  std::optional<double> smallest = QuotaOfFolder(root);
  std::string folder = root;
  for (absl::string_view part :
       absl::StrSplit(cgroup_path, '/', absl::SkipEmpty())) {
    absl::StrAppend(&folder, "/", part);
    smallest = Smaller(smallest, QuotaOfFolder(folder));
  }
  return smallest;
}

size_t UsableCpus() {
  std::optional<double> quota;
  const std::string memberships = ReadSmallFile("/proc/self/cgroup");
  for (absl::string_view line :
       absl::StrSplit(memberships, '\n', absl::SkipEmpty())) {
    // hierarchy:controllers:path; version 2 has "0::path".
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[1].empty()) {
      quota = Smaller(quota, CgroupCpuQuota("/sys/fs/cgroup", fields[2]));
    } else if (absl::StrContains(fields[1], "cpu")) {
      quota = Smaller(quota,
                      CgroupCpuQuota(absl::StrCat("/sys/fs/cgroup/", fields[1]),
                                     fields[2]));
    }
  }
  size_t cpus = AffinityCpus();
  if (quota.has_value() && *quota < static_cast<double>(cpus)) {
    cpus = static_cast<size_t>(*quota);
  }
  return std::max<size_t>(cpus, 1);
}

}  // namespace steadystate
