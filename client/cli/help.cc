// `steadystate help`, `completion` and `version`: what the program says about
// itself.
#include "client/options/help.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "client/cli/common_options.h"
#include "client/cli/output.h"
#include "client/options/completion.h"
#include "client/options/manual.h"

namespace steadystate::client {
namespace {

// The program with all of its commands, which it refers to.
class Commands {
 public:
  Commands() : program_(ThisProgram()) {
    for (const auto& command : commands_) {
      OptionTable table = command->options();
      CommonOptions().AppendTo(table, *command);
      program_.commands.push_back({command->text(), std::move(table)});
    }
  }

  const Program& program() const { return program_; }

 private:
  const std::vector<std::unique_ptr<Command>> commands_ = AllCommands();
  Program program_;
};

class HelpCommand : public PrintCommand {
 public:
  CommandText text() const override {
    return {"help", "[COMMAND]", "Shows a command's options and examples",
            "Shows what a command does, its options and examples; without a "
            "command, which ones there are. COMMAND --help does the same.",
            "  steadystate help generate\n"
            "  steadystate help session\n"
            "  steadystate help --man | man -l -\n"};
  }

  OptionTable options() override {
    return {{"man", "", "Prints the manual page of all commands, for man(1).",
             &man_}};
  }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    std::vector<std::string> rest = arguments;
    if (const auto command = TakeCommand(rest)) {
      text_ = HelpOf(*command);
      if (rest.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("unexpected '", rest[0], "'"));
    }
    auto overview = OverviewOf(rest);
    if (!overview || rest.size() > 1) {
      return absl::InvalidArgumentError(NoCommand(rest));
    }
    text_ = *std::move(overview);
    return absl::OkStatus();
  }

  absl::Status PrintText() const override {
    return Print(man_ ? FormatManual(Commands().program()) : text_);
  }

 private:
  bool man_ = false;
  std::string text_;
};

class CompletionCommand : public PrintCommand {
 public:
  CommandText text() const override {
    return {"completion", kShells,
            "Prints a script that completes commands and options",
            "Prints a script with which a shell completes the commands, their "
            "options and the words that these may be. Bash and fish read it "
            "from standard input, zsh from a file of its path of functions.",
            "  source <(steadystate completion bash)\n"
            "  steadystate completion fish | source\n"
            "  steadystate completion zsh >~/.zfunc/_steadystate\n"};
  }

  OptionTable options() override { return {}; }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("give one shell: ", kShells));
    }
    auto script = FormatCompletion(Commands().program(), arguments[0]);
    if (!script.ok()) return script.status();
    script_ = *std::move(script);
    return absl::OkStatus();
  }

  absl::Status PrintText() const override { return Print(script_); }

 private:
  std::string script_;
};

class VersionCommand : public PrintCommand {
 public:
  CommandText text() const override {
    return {"version", "", "Prints the version",
            "Prints the program's name and version. --version does the same.",
            "  steadystate version\n"};
  }

  OptionTable options() override { return {}; }

  absl::Status Prepare(const std::vector<std::string>& arguments) override {
    if (arguments.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[0], "'"));
  }

  absl::Status PrintText() const override {
    return Print("steadystate " STEADYSTATE_CLIENT_VERSION "\n");
  }
};

}  // namespace

Program ThisProgram() {
  return {
      .name = "steadystate",
      .version = STEADYSTATE_CLIENT_VERSION,
      .summary = "talks to a Steadystate server",
      .description =
          "The server is --address HOST:PORT, or else the environment variable "
          "STEADYSTATE_ADDRESS, or else 127.0.0.1:50051. HOST alone means port "
          "50051 there, :PORT means this machine.\n"
          "Options are written --name value or --name=value, '-' and '_' in "
          "names being the same. Results go to standard output, all else to "
          "standard error.",
      .commands = {},
      .exit_codes =
          {{"0", "done"},
           {"1",
            "the server refused or failed: error: CODE REASON: message; or a "
            "call took longer than --timeout: error: DEADLINE_EXCEEDED: "
            "message"},
           {"2", "the command line is wrong"},
           {"3", "no server answers, or it gave no sign of life for 40 s"},
           {"130", "interrupted"},
           {"141", "nobody reads standard output any more, as after | head"}},
      .environment = {
          {"STEADYSTATE_ADDRESS", "the server, where there is no --address"}}};
}

std::string HelpOf(Command& command) {
  CommonOptions common;
  OptionTable table = command.options();
  common.AppendTo(table, command);
  return FormatHelp(ThisProgram(), {command.text(), std::move(table)});
}

std::optional<std::string> OverviewOf(const std::vector<std::string>& words) {
  const Commands commands;
  const Program& program = commands.program();
  if (words.empty()) return FormatOverview(program, "");
  for (const CommandPage& command : program.commands) {
    if (absl::StartsWith(command.text.name, absl::StrCat(words[0], " "))) {
      return FormatOverview(program, words[0]);
    }
  }
  return std::nullopt;
}

std::unique_ptr<Command> MakeHelpCommand() {
  return std::make_unique<HelpCommand>();
}
std::unique_ptr<Command> MakeCompletionCommand() {
  return std::make_unique<CompletionCommand>();
}
std::unique_ptr<Command> MakeVersionCommand() {
  return std::make_unique<VersionCommand>();
}

}  // namespace steadystate::client
