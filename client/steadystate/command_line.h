#ifndef STEADYSTATE_CLIENT_STEADYSTATE_COMMAND_LINE_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_COMMAND_LINE_H_

#include <string>
#include <vector>

namespace steadystate::client {

// What the process ends with.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,         // the server refused or failed, or a file did
  kUsage = 2,          // the command line is wrong
  kUnreachable = 3,    // no server answers
  kInterrupted = 130,  // SIGINT or SIGTERM
};

// Carries out a command line, without the program's name: results go to
// standard output, everything else to standard error. Reads the environment
// variable STEADYSTATE_ADDRESS.
// REQUIRES: the process has no other threads yet.
ExitCode RunCommandLine(const std::vector<std::string>& arguments);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_COMMAND_LINE_H_
