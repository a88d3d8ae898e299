#include "client/steadystate/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace steadystate::client {

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

}  // namespace steadystate::client
