#include "server/base/descriptor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <initializer_list>
#include <utility>

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

}  // namespace steadystate
