#include <csignal>
#include <string>
#include <vector>

#include "client/steadystate/command_line.h"

int main(int argc, char** argv) {
  // A reader of our output that has gone is an error of writing, after which
  // the session is still cleaned up.
  std::signal(SIGPIPE, SIG_IGN);
  return steadystate::client::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc));
}
