#ifndef STEADYSTATE_SERVER_BASE_CPU_COUNT_H_
#define STEADYSTATE_SERVER_BASE_CPU_COUNT_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// Processors this process may keep busy: the smaller of its affinity mask and
// the CPU quota of its cgroup and the cgroups above (cpu.max; version 1:
// cpu.cfs_quota_us), rounded down, at least 1. What
// std::thread::hardware_concurrency ignores, and what decides whether a
// container is throttled.
size_t UsableCpus();

// The quota in processors that the text of a cpu.max file states ("200000
// 100000" is 2.0), or nothing for "max" and for text that is not a quota.
std::optional<double> ParseCpuMax(absl::string_view text);

// The smallest quota along `cgroup_path` ("/a/b") below the mount point `root`
// ("/sys/fs/cgroup"), or nothing if none is set.
std::optional<double> CgroupCpuQuota(const std::string& root,
                                     absl::string_view cgroup_path);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_CPU_COUNT_H_
