#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/cli/command.h"

namespace {

// Opens /dev/null in place of standard input, output or error where the process
// was started without it: else a connection or a file would get its number, and
// what is written to it. Reading or writing it still fails, as it would if it
// were closed.
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

}  // namespace

int main(int argc, char** argv) {
  OpenStandardDescriptors();
  // Distributions build Abseil with its checks: each lock that gRPC takes then
  // looks into a graph of all locks, and an order that might deadlock would
  // abort the process.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A reader of our output that has gone is an error of writing, after which
  // the session is still cleaned up.
  std::signal(SIGPIPE, SIG_IGN);
  const auto code = steadystate::client::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc));
  if (code == steadystate::client::kReaderGone) {
    // Ends as any program does in front of `| head`.
    std::signal(SIGPIPE, SIG_DFL);
    std::raise(SIGPIPE);
  }
  return code;
}
