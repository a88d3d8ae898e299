// steadystate-bench: what the kernels, the engine and the server cost on this
// machine, beside what the machine allows.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "client/options/help.h"
#include "tests/bench/command.h"

namespace steadystate::bench {
namespace {

enum ExitCode : int { kOk = 0, kFailed = 1, kUsage = 2 };

constexpr uint64_t kMaxRepetitions = 10000;

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeKernelsCommand());
  commands.push_back(MakeEngineCommand());
  commands.push_back(MakeServeCommand());
  commands.push_back(MakeMixedCommand());
  commands.push_back(MakeAgeCommand());
  commands.push_back(MakeSessionsCommand());
  commands.push_back(MakeCheckpointCommand());
  return commands;
}

// What every command has beside its own options.
struct CommonOptions {
  std::optional<uint64_t> repetitions;
  std::optional<uint64_t> seed;
  bool quick = false;
  bool json = false;
  bool markdown = false;
  bool help = false;

  void AppendTo(client::OptionTable& table) {
    table.push_back({"repetitions", "N",
                     "How often each figure is taken, 1 to 10000; what is "
                     "compared is taken in turns. Default 5.",
                     &repetitions});
    table.push_back(
        {"seed", "N", "Of weights, prompts and orders. Default 1.", &seed});
    table.push_back({"quick", "",
                     "Tiny sizes, unless others are given, and a moment of "
                     "time: shows that the command works, measures nothing.",
                     &quick});
    table.push_back({"json", "", "Prints the report as JSON.", &json});
    table.push_back(
        {"markdown", "", "Prints the report as Markdown tables.", &markdown});
    table.push_back({"help", "", "Shows this text.", &help});
  }

  absl::StatusOr<RunOptions> ToRunOptions() const {
    RunOptions run;
    run.quick = quick;
    run.repetitions = repetitions.value_or(quick ? 1 : run.repetitions);
    run.seed = seed.value_or(run.seed);
    if (run.repetitions < 1 || run.repetitions > kMaxRepetitions) {
      return absl::InvalidArgumentError(
          absl::StrCat("--repetitions is ", run.repetitions,
                       "; it must be 1 to ", kMaxRepetitions));
    }
    if (json && markdown) {
      return absl::InvalidArgumentError(
          "give only one of --json and --markdown");
    }
    return run;
  }
};

std::string Overview() {
  std::string text =
      "steadystate-bench: measures kernels, engine and server\n\n"
      "Usage: steadystate-bench COMMAND [OPTIONS]\n\nCommands:\n";
  for (const auto& command : AllCommands()) {
    absl::StrAppendFormat(&text, "  %-12s %s\n", command->text().name,
                          command->text().summary);
  }
  absl::StrAppend(
      &text,
      "  help COMMAND Shows a command's options and examples\n\n"
      "Exit codes: 0 done, 1 failed, 2 the command line is wrong\n");
  return text;
}

int UsageError(absl::string_view message, absl::string_view command) {
  std::fprintf(stderr, "error: %s\nSee: steadystate-bench help%s\n",
               std::string(message).c_str(),
               command.empty() ? "" : absl::StrCat(" ", command).c_str());
  return kUsage;
}

// A status for people: without the details that the server's clients get.
std::string Told(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ",
                      status.message());
}

// Whoever reads the report later must not take its figures for measured ones.
void MarkQuick(const RunOptions& run, Report& report) {
  report.environment["quick"] = run.quick;
  if (!run.quick) return;
  report.notes.emplace_back(
      "--quick: shows that the command works; the figures measure nothing.");
}

int RunCommand(Command& command, const std::vector<std::string>& arguments) {
  const CommandText text = command.text();
  CommonOptions common;
  client::OptionTable table = command.options();
  common.AppendTo(table);
  const auto others = client::ParseOptions(table, arguments);
  if (!others.ok()) return UsageError(others.status().message(), text.name);
  if (common.help) {
    std::fputs(absl::StrCat("Usage: steadystate-bench ", text.name,
                            " [OPTIONS]\n\n", client::Wrap(text.description, 0),
                            "\nOptions:\n", client::FormatOptions(table),
                            "\nExamples:\n", text.examples)
                   .c_str(),
               stdout);
    return kOk;
  }
  if (!others->empty()) {
    return UsageError(absl::StrCat("unexpected '", others->front(), "'"),
                      text.name);
  }
  const auto run = common.ToRunOptions();
  if (!run.ok()) return UsageError(run.status().message(), text.name);
  const absl::Status checked = command.Check(*run);
  if (!checked.ok()) return UsageError(checked.message(), text.name);
  auto report = command.Run(*run);
  if (!report.ok()) {
    std::fprintf(stderr, "error: %s\n", Told(report.status()).c_str());
    return kFailed;
  }
  MarkQuick(*run, *report);
  const std::string result =
      common.json ? ToJson(*report).dump(1) + "\n"
                  : (common.markdown ? ToMarkdown(*report) : ToText(*report));
  return std::fputs(result.c_str(), stdout) < 0 ? kFailed : kOk;
}

int Main(std::vector<std::string> arguments) {
  if (arguments.empty()) {
    std::fputs(Overview().c_str(), stderr);
    return kUsage;
  }
  if (arguments[0] == "help" || arguments[0] == "--help" ||
      arguments[0] == "-h") {
    if (arguments.size() == 1) {
      std::fputs(Overview().c_str(), stdout);
      return kOk;
    }
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  const auto commands = AllCommands();
  std::vector<absl::string_view> names;
  for (const auto& command : commands) {
    names.push_back(command->text().name);
    if (names.back() != arguments[0]) continue;
    return RunCommand(*command, {arguments.begin() + 1, arguments.end()});
  }
  const absl::string_view closest = client::Closest(arguments[0], names);
  return UsageError(
      absl::StrCat(
          "unknown command ", arguments[0],
          closest.empty() ? "" : absl::StrCat(", did you mean ", closest, "?")),
      "");
}

}  // namespace
}  // namespace steadystate::bench

int main(int argc, char** argv) {
  // As the client has it: see client/cli/main.cc.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // A server that has gone is an error of writing to it.
  std::signal(SIGPIPE, SIG_IGN);
  return steadystate::bench::Main(
      std::vector<std::string>(argv + 1, argv + argc));
}
