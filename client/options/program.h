#ifndef STEADYSTATE_CLIENT_OPTIONS_PROGRAM_H_
#define STEADYSTATE_CLIENT_OPTIONS_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/options/options.h"

namespace steadystate::client {

// What help says about a command, beside its options.
struct CommandText {
  absl::string_view name;         // "session create"
  absl::string_view arguments;    // "SESSION", or empty
  absl::string_view summary;      // one line
  absl::string_view description;  // paragraphs, wrapped at 80 columns
  absl::string_view examples;     // command lines, indented
};

// A command as help, the manual and completions show it. The targets of the
// options are not used.
struct CommandPage {
  CommandText text;
  OptionTable options;
};

// A word and what it stands for: an exit code, a variable of the environment.
struct Meaning {
  absl::string_view word;
  absl::string_view meaning;
};

// A program: what its help, its manual page and its completions are made of.
struct Program {
  absl::string_view name;     // "steadystate"
  absl::string_view version;  // "0.1.0"
  absl::string_view summary;  // one line, without the name
  absl::string_view description;
  // A program without commands has one, whose name is empty.
  std::vector<CommandPage> commands;
  std::vector<Meaning> exit_codes;
  std::vector<Meaning> environment;
};

// "steadystate session create ID": how a command is called, less its options.
std::string CalledAs(const Program& program, const CommandText& text);

// The literal words that an option's value may be: of "step|generate" both, of
// "N|none" the last.
std::vector<absl::string_view> LiteralWords(const Option& option);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_OPTIONS_PROGRAM_H_
