#include "client/cli/command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/common_options.h"
#include "client/cli/output.h"
#include "client/options/help.h"
#include "steadystate/error.h"

namespace steadystate::client {
namespace {

// `usage`, if any, is how the command is written.
ExitCode UsageError(absl::string_view message, absl::string_view command,
                    absl::string_view usage = "") {
  const std::string see = absl::StrCat(
      "steadystate help", command.empty() || command == "help" ? "" : " ",
      command == "help" ? "" : command);
  std::fputs(
      absl::StrCat("error: ", message, "\n", usage, "See: ", see, "\n").c_str(),
      stderr);
  return kUsage;
}

// What gRPC says by itself lacks where that was, and what to do.
absl::Status WithAdvice(const absl::Status& status,
                        const std::string& address) {
  if (absl::IsResourceExhausted(status) && !GetErrorDetails(status) &&
      absl::StrContains(status.message(), "larger than max")) {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(),
                     "; that many bytes are the most of one message "
                     "(--max_message_bytes of steadystate-server): give less "
                     "at once"));
  }
  if (!IsUnreachable(status)) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; the connection to ", address,
                   " is lost: is steadystate-server still running there?"));
}

ExitCode ReportEnd(const absl::Status& status, const Canceller& canceller) {
  if (status.ok()) return kOk;
  if (IsReaderGone(status)) return kReaderGone;
  if (canceller.cancelled()) return kInterrupted;
  // The server's own deadlines say themselves what they are.
  const bool timed_out =
      absl::IsDeadlineExceeded(status) && !GetErrorDetails(status);
  std::fprintf(stderr, "error: %s%s\n", Described(status).c_str(),
               timed_out ? "; --timeout says how long a call may take" : "");
  return IsUnreachable(status) ? kUnreachable : kFailed;
}

// Connects and runs a command that is ready to.
ExitCode Execute(Command& command, const CommonOptions& common) {
  const auto address = common.ServerAddress();
  if (!address.ok()) {
    return UsageError(address.status().message(), command.text().name);
  }
  Canceller canceller;
  Interrupt interrupt(CancelCalls(canceller));
  auto client = Client::Connect(
      *address, {.connect_timeout = common.timeout.value_or(kConnectTimeout)});
  if (!client.ok()) return ReportEnd(client.status(), canceller);
  const absl::Duration work = command.default_timeout();
  const Connection connection{.client = *std::move(client),
                              .call = {.timeout = common.timeout.value_or(work),
                                       .canceller = &canceller},
                              .unary = {.timeout = common.timeout.value_or(
                                            std::min(work, kUnaryTimeout)),
                                        .canceller = &canceller},
                              .interrupt = &interrupt};
  return ReportEnd(WithAdvice(command.Run(connection), *address), canceller);
}

ExitCode RunCommand(Command& command,
                    const std::vector<std::string>& arguments) {
  CommonOptions common;
  OptionTable table = command.options();
  common.AppendTo(table, command);
  const auto others = ParseOptions(table, arguments);
  const absl::string_view name = command.text().name;
  if (!others.ok()) return UsageError(others.status().message(), name);
  if (common.help) return ReportEnd(Print(HelpOf(command)), Canceller());
  const absl::Status prepared = command.Prepare(*others);
  if (!prepared.ok()) {
    return UsageError(
        prepared.message(), name,
        absl::StrCat("Usage: ", CalledAs(ThisProgram(), command.text()),
                     " [OPTIONS]\n"));
  }
  if (command.needs_server()) return Execute(command, common);
  return ReportEnd(static_cast<const PrintCommand&>(command).PrintText(),
                   Canceller());
}

bool AsksForHelp(const std::vector<std::string>& arguments) {
  if (arguments.size() == 2 && arguments[1] == "help") return true;
  return std::any_of(
      arguments.begin(), arguments.end(),
      [](const std::string& word) { return word == "--help" || word == "-h"; });
}

}  // namespace

absl::Status PrintCommand::Run(const Connection&) { return PrintText(); }

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeGenerateCommand());
  commands.push_back(MakeChatCommand());
  commands.push_back(MakeScoreCommand());
  commands.push_back(MakeEmbedCommand());
  // Before the command that its name begins with.
  commands.push_back(MakeLoadCompareCommand());
  commands.push_back(MakeLoadCommand());
  commands.push_back(MakeSessionCreateCommand());
  commands.push_back(MakeSessionGetCommand());
  commands.push_back(MakeSessionListCommand());
  commands.push_back(MakeSessionForkCommand());
  commands.push_back(MakeSessionRewindCommand());
  commands.push_back(MakeSessionUpdateCommand());
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
  commands.push_back(MakeCompletionCommand());
  commands.push_back(MakeVersionCommand());
  commands.push_back(MakeHelpCommand());
  return commands;
}

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

std::string NoCommand(const std::vector<std::string>& arguments) {
  const std::string& first = arguments[0];
  if (absl::StartsWith(first, "-")) {
    return absl::StrCat(
        "a command comes before its options: steadystate "
        "COMMAND ",
        first);
  }
  const auto commands = AllCommands();
  std::vector<absl::string_view> names;
  std::vector<absl::string_view> beginning_so;
  std::vector<absl::string_view> second_words;
  for (const auto& command : commands) {
    names.push_back(command->text().name);
    const size_t blank = names.back().find(' ');
    if (blank == absl::string_view::npos) continue;
    const absl::string_view name = names.back();
    names.push_back(name.substr(0, blank));
    if (names.back() != first) continue;
    beginning_so.push_back(name);
    second_words.push_back(name.substr(blank + 1));
  }
  if (beginning_so.empty()) {
    return absl::StrCat("unknown command ", first, DidYouMean(first, names));
  }
  if (arguments.size() == 1 || absl::StartsWith(arguments[1], "-")) {
    return absl::StrCat(first,
                        " needs one of: ", absl::StrJoin(beginning_so, ", "));
  }
  const absl::string_view closest = Closest(arguments[1], second_words);
  return absl::StrCat(
      "unknown command ", first, " ", arguments[1],
      closest.empty()
          ? absl::StrCat("; there are ", absl::StrJoin(beginning_so, ", "))
          : absl::StrCat(", did you mean ", first, " ", closest, "?"));
}

ExitCode RunCommandLine(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs(OverviewOf({})->c_str(), stderr);
    return kUsage;
  }
  std::vector<std::string> rest = arguments;
  if (rest[0] == "--version") rest[0] = "version";
  if (rest[0] == "--help" || rest[0] == "-h") rest[0] = "help";
  const auto command = TakeCommand(rest);
  if (command != nullptr) return RunCommand(*command, rest);
  const auto overview = OverviewOf({rest[0]});
  if (overview && AsksForHelp(rest)) {
    return ReportEnd(Print(*overview), Canceller());
  }
  return UsageError(NoCommand(rest), overview ? rest[0] : "");
}

}  // namespace steadystate::client
