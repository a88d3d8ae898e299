#ifndef STEADYSTATE_SERVER_BASE_PROCESS_H_
#define STEADYSTATE_SERVER_BASE_PROCESS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// Owns an open file descriptor and closes it. Thread-compatible.
class Descriptor {
 public:
  Descriptor() = default;
  // Owns `fd`; a negative one stands for none.
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor up to the caller.
  int Release();
  void Close();

 private:
  int fd_ = -1;
};

// Wakes a thread that polls. Thread-safe.
class WakeUp {
 public:
  WakeUp();

  // What to poll for reading; invalid if the process had no descriptor left.
  const Descriptor& descriptor() const { return event_; }
  void Signal() const;
  // Takes notice of signals so far: the descriptor is no longer readable.
  void Clear() const;

 private:
  const Descriptor event_;
};

// Descriptors that the process may open: its soft limit, and the hard one to
// which it may raise that; and those that it has open now. 0 if the system does
// not say.
uint64_t DescriptorLimit();
uint64_t HardDescriptorLimit();
size_t OpenDescriptors();

// Opens /dev/null in place of standard input, output or error where the process
// was started without it: else a connection or a file would get its number, and
// what is written to it. Reading or writing it still fails, as it would if it
// were closed. The first thing that main does.
void OpenStandardDescriptors();

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

// The memory in bytes that this process may have: the machine's, or the
// smallest limit of its cgroup and the cgroups above (memory.max; version 1:
// memory.limit_in_bytes). Nothing if the system does not say.
std::optional<uint64_t> UsableMemory();

// The smallest memory limit in bytes along `cgroup_path`, as CgroupCpuQuota.
std::optional<double> CgroupMemory(const std::string& root,
                                   absl::string_view cgroup_path);

// Bytes of memory that this process has now, without those of files, which the
// system can take back. 0 if the system does not say.
uint64_t AnonymousMemory();

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_PROCESS_H_
