#ifndef STEADYSTATE_CLIENT_CLI_COMMAND_H_
#define STEADYSTATE_CLIENT_CLI_COMMAND_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/interrupt.h"
#include "client/options/options.h"
#include "client/options/program.h"
#include "steadystate/client.h"

namespace steadystate::client {

// How long a server may take to answer what takes it no time.
inline constexpr absl::Duration kUnaryTimeout = absl::Seconds(10);

// A connected client, and how a command is to make its calls.
struct Connection {
  Client client;
  // For the command's work, which may take as long as it takes.
  CallOptions call;
  // For calls that a server answers at once.
  CallOptions unary;
  // Ends those calls at SIGINT, SIGTERM and SIGHUP, unless a command has its
  // own ways.
  Interrupt* interrupt = nullptr;
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

  // False: it prints something and neither connects nor has an address.
  virtual bool needs_server() const { return true; }

  // Does all that needs no server: checks options and arguments, reads files.
  // An error is the user's.
  virtual absl::Status Prepare(const std::vector<std::string>& arguments) = 0;

  // Does the work and writes its results to standard output.
  virtual absl::Status Run(const Connection& connection) = 0;
};

// A command that needs no server: it prints.
class PrintCommand : public Command {
 public:
  bool needs_server() const final { return false; }
  absl::Status Run(const Connection& connection) final;

  // Writes to standard output, in place of Run.
  virtual absl::Status PrintText() const = 0;
};

// One factory for each command; each command has a file of its name.
std::unique_ptr<Command> MakeGenerateCommand();
std::unique_ptr<Command> MakeChatCommand();
std::unique_ptr<Command> MakeScoreCommand();
std::unique_ptr<Command> MakeEmbedCommand();
std::unique_ptr<Command> MakeLoadCommand();
std::unique_ptr<Command> MakeLoadCompareCommand();
std::unique_ptr<Command> MakeHealthCommand();
std::unique_ptr<Command> MakeModelCommand();
std::unique_ptr<Command> MakeSessionCreateCommand();
std::unique_ptr<Command> MakeSessionGetCommand();
std::unique_ptr<Command> MakeSessionListCommand();
std::unique_ptr<Command> MakeSessionForkCommand();
std::unique_ptr<Command> MakeSessionRewindCommand();
std::unique_ptr<Command> MakeSessionUpdateCommand();
std::unique_ptr<Command> MakeSessionCheckpointCommand();
std::unique_ptr<Command> MakeCheckpointListCommand();
std::unique_ptr<Command> MakeCheckpointDeleteCommand();
std::unique_ptr<Command> MakeSessionExportCommand();
std::unique_ptr<Command> MakeSessionImportCommand();
std::unique_ptr<Command> MakeSessionHibernateCommand();
std::unique_ptr<Command> MakeSessionDeleteCommand();
std::unique_ptr<Command> MakeSessionWatchCommand();
std::unique_ptr<Command> MakeHelpCommand();
std::unique_ptr<Command> MakeCompletionCommand();
std::unique_ptr<Command> MakeVersionCommand();

// All of them, in the order in which help shows them.
std::vector<std::unique_ptr<Command>> AllCommands();

// Takes a command's name, of one or two words, off the arguments; nullptr if
// there is no such command.
std::unique_ptr<Command> TakeCommand(std::vector<std::string>& arguments);

// Why the arguments begin with no command's name, and what was probably meant.
// REQUIRES: they do not, and there is one.
std::string NoCommand(const std::vector<std::string>& arguments);

// What the program is, less its commands.
Program ThisProgram();

// What --help and `help` print of a command.
std::string HelpOf(Command& command);

// What they print where the arguments name no command: the overview, or that of
// the commands that begin with the first argument. Nothing if there are none.
std::optional<std::string> OverviewOf(const std::vector<std::string>& words);

// What the process ends with.
enum ExitCode : int {
  kOk = 0,
  kFailed = 1,         // the server refused or failed, or a file did
  kUsage = 2,          // the command line is wrong
  kUnreachable = 3,    // no server answers
  kInterrupted = 130,  // SIGINT, SIGTERM or SIGHUP
  kReaderGone = 141,   // nobody reads standard output any more: SIGPIPE
};

// Carries out a command line, without the program's name: results go to
// standard output, everything else to standard error. Reads the environment
// variable STEADYSTATE_ADDRESS.
// REQUIRES: the process has no other threads yet.
ExitCode RunCommandLine(const std::vector<std::string>& arguments);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_COMMAND_H_
