#include <csignal>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "client/steadystate/command_line.h"
#include "client/steadystate/standard_descriptors.h"

int main(int argc, char** argv) {
  steadystate::client::OpenStandardDescriptors();
  // Distributions build Abseil with its checks: each lock that gRPC takes then
  // looks into a graph of all locks, and an order that might deadlock would
  // abort the process.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A reader of our output that has gone is an error of writing, after which
  // the session is still cleaned up.
  std::signal(SIGPIPE, SIG_IGN);
  return steadystate::client::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc));
}
