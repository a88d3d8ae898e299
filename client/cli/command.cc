#include "client/cli/command.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/output.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

constexpr int kExitInterrupted = 130;

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

// While it exists, SIGINT and SIGTERM cancel the calls of a canceller instead
// of ending the process, so that a command can clean up; a second one ends the
// process at once with status 130.
//
// REQUIRES: made before the process starts other threads, and the only one.
class Interrupt {
 public:
  // `canceller` must outlive this object.
  explicit Interrupt(Canceller& canceller);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  void Watch();

  Canceller& canceller_;
  std::atomic<bool> stopping_ = false;
  std::thread watcher_;
};

Interrupt::Interrupt(Canceller& canceller) : canceller_(canceller) {
  // Blocked here, and so in every thread that starts from now on: the watcher
  // is the only one that takes them, outside any signal handler.
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  watcher_ = std::thread(&Interrupt::Watch, this);
}

Interrupt::~Interrupt() {
  stopping_ = true;
  pthread_kill(watcher_.native_handle(), SIGTERM);
  watcher_.join();
}

void Interrupt::Watch() {
  const sigset_t signals = Signals();
  int signal = 0;
  while (sigwait(&signals, &signal) == 0 && !stopping_) {
    if (canceller_.cancelled()) _exit(kExitInterrupted);
    canceller_.Cancel();
  }
}

constexpr char kDefaultAddress[] = "127.0.0.1:50051";
constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeGenerateCommand());
  commands.push_back(MakeScoreCommand());
  commands.push_back(MakeEmbedCommand());
  commands.push_back(MakeLoadCommand());
  commands.push_back(MakeSessionCreateCommand());
  commands.push_back(MakeSessionGetCommand());
  commands.push_back(MakeSessionListCommand());
  commands.push_back(MakeSessionForkCommand());
  commands.push_back(MakeSessionRewindCommand());
  commands.push_back(MakeSessionCheckpointCommand());
  commands.push_back(MakeSessionExportCommand());
  commands.push_back(MakeSessionImportCommand());
  commands.push_back(MakeSessionHibernateCommand());
  commands.push_back(MakeSessionDeleteCommand());
  commands.push_back(MakeSessionWatchCommand());
  commands.push_back(MakeCheckpointListCommand());
  commands.push_back(MakeCheckpointDeleteCommand());
  commands.push_back(MakeModelCommand());
  commands.push_back(MakeHealthCommand());
  return commands;
}

// What every command has beside its own options.
class CommonOptions {
 public:
  std::string address = kDefaultAddress;
  std::optional<absl::Duration> timeout;
  bool help = false;

  // `calls_last`: the command's own call takes as long as it takes.
  void AppendTo(OptionTable& table, bool calls_last) {
    table.push_back({"address", "HOST:PORT",
                     "The server. Default: the environment variable "
                     "STEADYSTATE_ADDRESS, or 127.0.0.1:50051.",
                     &address});
    table.push_back(
        {"timeout", "DURATION",
         calls_last
             ? "Gives up if one call, or connecting, takes longer, such as "
               "30s; 0: never. Default: what takes the server no time 10s, "
               "connecting 5s, the rest for as long as the server gives signs "
               "of life."
             : "Gives up if one call, or connecting, takes longer; 0: never. "
               "Default 10s; health and connecting 5s.",
         [this](absl::string_view text) { return ReadTimeout(text); }});
    table.push_back({"help", "", "Shows this text.", &help});
  }

 private:
  absl::Status ReadTimeout(absl::string_view text) {
    absl::Duration time;
    if (!absl::ParseDuration(text, &time) || time < absl::ZeroDuration()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", text, "' is not a duration such as 500ms, 10s or 5m, nor 0"));
    }
    timeout = time == absl::ZeroDuration() ? absl::InfiniteDuration() : time;
    return absl::OkStatus();
  }
};

std::string Overview() {
  std::string text =
      "steadystate: talks to a Steadystate server\n\n"
      "Usage: steadystate COMMAND [OPTIONS]\n\nCommands:\n";
  for (const auto& command : AllCommands()) {
    absl::StrAppendFormat(&text, "  %-16s %s\n", command->text().name,
                          command->text().summary);
  }
  absl::StrAppend(
      &text, "  version          Prints the version\n",
      "  help COMMAND     Shows a command's options and examples\n\n",
      "The server is --address HOST:PORT, or else the environment variable\n",
      "STEADYSTATE_ADDRESS, or else ", kDefaultAddress, ".\n\n",
      "Exit codes:\n"
      "  0    done\n"
      "  1    the server refused or failed: error: CODE REASON: message; or "
      "a call\n"
      "       took longer than --timeout: error: DEADLINE_EXCEEDED: message\n"
      "  2    the command line is wrong\n"
      "  3    no server answers, or it gave no sign of life for 40 s\n"
      "  130  interrupted\n");
  return text;
}

std::string Help(const CommandText& text, const OptionTable& table) {
  return absl::StrCat(
      "Usage: steadystate ", text.name, text.arguments.empty() ? "" : " ",
      text.arguments, " [OPTIONS]\n\n", Wrap(text.description, 0),
      "\nOptions:\n", FormatOptions(table), "\nExamples:\n", text.examples);
}

ExitCode UsageError(absl::string_view message, absl::string_view command) {
  const std::string see =
      absl::StrCat("steadystate help", command.empty() ? "" : " ", command);
  std::fprintf(stderr, "error: %s\nSee: %s\n", std::string(message).c_str(),
               see.c_str());
  return kUsage;
}

ExitCode Report(const absl::Status& status, const Canceller& canceller) {
  if (status.ok()) return kOk;
  if (canceller.cancelled()) return kInterrupted;
  std::string text = absl::StatusCodeToString(status.code());
  if (const auto details = GetErrorDetails(status)) {
    absl::StrAppend(&text, " ", details->reason, ": ", status.message());
    if (details->retry_after) {
      absl::StrAppend(&text, " (try again in ",
                      absl::FormatDuration(*details->retry_after), ")");
    }
  } else {
    absl::StrAppend(&text, ": ", status.message());
  }
  std::fprintf(stderr, "error: %s\n", text.c_str());
  return IsUnreachable(status) ? kUnreachable : kFailed;
}

// Takes the command's name, of one or two words, off the arguments; nullptr if
// there is no such command.
std::unique_ptr<Command> TakeCommand(std::vector<std::string>& arguments) {
  for (auto& command : AllCommands()) {
    const std::vector<std::string> words =
        absl::StrSplit(command->text().name, ' ');
    if (arguments.size() >= words.size() &&
        std::equal(words.begin(), words.end(), arguments.begin())) {
      arguments.erase(arguments.begin(),
                      arguments.begin() + static_cast<ptrdiff_t>(words.size()));
      return std::move(command);
    }
  }
  return nullptr;
}

ExitCode UnknownCommand(const std::vector<std::string>& arguments) {
  const auto commands = AllCommands();
  std::vector<absl::string_view> names = {"help", "version"};
  std::vector<absl::string_view> beginning_so;
  for (const auto& command : commands) {
    names.push_back(command->text().name);
    if (absl::StartsWith(names.back(), absl::StrCat(arguments[0], " "))) {
      beginning_so.push_back(names.back());
    }
  }
  if (!beginning_so.empty()) {
    return UsageError(absl::StrCat(arguments[0], " needs one of: ",
                                   absl::StrJoin(beginning_so, ", ")),
                      "");
  }
  const absl::string_view closest = Closest(arguments[0], names);
  return UsageError(
      absl::StrCat(
          "unknown command ", arguments[0],
          closest.empty() ? "" : absl::StrCat(", did you mean ", closest, "?")),
      "");
}

// Connects and runs a command that is ready to.
ExitCode Execute(Command& command, const CommonOptions& common) {
  Canceller canceller;
  const Interrupt interrupt(canceller);
  auto client = Client::Connect(
      common.address,
      {.connect_timeout = common.timeout.value_or(kConnectTimeout)});
  if (!client.ok()) return Report(client.status(), canceller);
  const absl::Duration work = command.default_timeout();
  const Connection connection{.client = *std::move(client),
                              .call = {.timeout = common.timeout.value_or(work),
                                       .canceller = &canceller},
                              .unary = {.timeout = common.timeout.value_or(
                                            std::min(work, kUnaryTimeout)),
                                        .canceller = &canceller}};
  return Report(command.Run(connection), canceller);
}

ExitCode RunCommand(Command& command,
                    const std::vector<std::string>& arguments) {
  CommonOptions common;
  if (const char* address = std::getenv("STEADYSTATE_ADDRESS")) {
    common.address = address;
  }
  OptionTable table = command.options();
  common.AppendTo(table, command.default_timeout() == absl::InfiniteDuration());
  const auto others = ParseOptions(table, arguments);
  const absl::string_view name = command.text().name;
  if (!others.ok()) return UsageError(others.status().message(), name);
  if (common.help) {
    return Report(Print(Help(command.text(), table)), Canceller());
  }
  const absl::Status prepared = command.Prepare(*others);
  if (!prepared.ok()) return UsageError(prepared.message(), name);
  return Execute(command, common);
}

}  // namespace

ExitCode RunCommandLine(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(Overview().c_str(), stderr);
    return kUsage;
  }
  std::vector<std::string> rest = arguments;
  const std::string& first = arguments[0];
  if (first == "version" || first == "--version") {
    return Report(Print("steadystate " STEADYSTATE_CLIENT_VERSION "\n"),
                  Canceller());
  }
  if (first == "help" || first == "--help" || first == "-h") {
    if (arguments.size() == 1) return Report(Print(Overview()), Canceller());
    rest.erase(rest.begin());
    rest.emplace_back("--help");
  }
  const auto command = TakeCommand(rest);
  if (command == nullptr) return UnknownCommand(rest);
  return RunCommand(*command, rest);
}

}  // namespace steadystate::client
