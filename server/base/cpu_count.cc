#include "server/base/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace steadystate {
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
