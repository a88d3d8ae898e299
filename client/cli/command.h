#ifndef STEADYSTATE_CLIENT_CLI_COMMAND_H_
#define STEADYSTATE_CLIENT_CLI_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/options.h"
#include "steadystate/client.h"

namespace steadystate::client {

// How long a server may take to answer what takes it no time.
inline constexpr absl::Duration kUnaryTimeout = absl::Seconds(10);

// What help says about a command, beside its options.
struct CommandText {
  absl::string_view name;         // "session create"
  absl::string_view arguments;    // "SESSION", or empty
  absl::string_view summary;      // one line
  absl::string_view description;  // paragraphs, wrapped at 80 columns
  absl::string_view examples;     // command lines, indented
};

// A connected client, and how a command is to make its calls.
struct Connection {
  Client client;
  // For the command's work, which may take as long as it takes.
  CallOptions call;
  // For calls that a server answers at once.
  CallOptions unary;
};

// A subcommand of the command line. Used once, in the order of the methods:
// options are read, Prepare looks at them, Run does the work.
class Command {
 public:
  virtual ~Command() = default;

  // What help says.
  virtual CommandText text() const = 0;

  // The command's own options; their targets lie in this object.
  virtual OptionTable options() = 0;

  // How long one call of its work may take unless --timeout says otherwise.
  virtual absl::Duration default_timeout() const { return kUnaryTimeout; }

  // Does all that needs no server: checks options and arguments, reads files.
  // An error is the user's.
  virtual absl::Status Prepare(const std::vector<std::string>& arguments) = 0;

  // Does the work and writes its results to standard output.
  virtual absl::Status Run(const Connection& connection) = 0;
};

// One factory for each command; each command has a file of its name.
std::unique_ptr<Command> MakeGenerateCommand();
std::unique_ptr<Command> MakeScoreCommand();
std::unique_ptr<Command> MakeEmbedCommand();
std::unique_ptr<Command> MakeLoadCommand();
std::unique_ptr<Command> MakeHealthCommand();
std::unique_ptr<Command> MakeModelCommand();
std::unique_ptr<Command> MakeSessionCreateCommand();
std::unique_ptr<Command> MakeSessionGetCommand();
std::unique_ptr<Command> MakeSessionListCommand();
std::unique_ptr<Command> MakeSessionForkCommand();
std::unique_ptr<Command> MakeSessionRewindCommand();
std::unique_ptr<Command> MakeSessionCheckpointCommand();
std::unique_ptr<Command> MakeCheckpointListCommand();
std::unique_ptr<Command> MakeCheckpointDeleteCommand();
std::unique_ptr<Command> MakeSessionExportCommand();
std::unique_ptr<Command> MakeSessionImportCommand();
std::unique_ptr<Command> MakeSessionHibernateCommand();
std::unique_ptr<Command> MakeSessionDeleteCommand();
std::unique_ptr<Command> MakeSessionWatchCommand();

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

#endif  // STEADYSTATE_CLIENT_CLI_COMMAND_H_
