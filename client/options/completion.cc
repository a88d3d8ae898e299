#include "client/options/completion.h"

#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace steadystate::client {
namespace {

// "_steadystate_server": what functions and variables are called.
std::string Identifier(const Program& program) {
  return absl::StrCat("_", absl::StrReplaceAll(program.name, {{"-", "_"}}));
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// The words that may come first, or after `group`: of commands of two words the
// first, once.
std::set<std::string> WordsAfter(const Program& program,
                                 absl::string_view group) {
  std::set<std::string> words;
  for (const CommandPage& command : program.commands) {
    const std::vector<std::string> parts =
        absl::StrSplit(command.text.name, ' ', absl::SkipEmpty());
    if (group.empty() && !parts.empty()) words.insert(parts[0]);
    if (parts.size() == 2 && parts[0] == group) words.insert(parts[1]);
  }
  return words;
}

// The words that may come behind a command: its second words if it is also a
// group, those of its arguments ("bash|zsh|fish"), or for COMMAND the others.
std::vector<std::string> ArgumentWords(const Program& program,
                                       const CommandPage& command) {
  const std::set<std::string> group = WordsAfter(program, command.text.name);
  std::vector<std::string> words(group.begin(), group.end());
  Option argument;
  argument.value = command.text.arguments;
  for (const absl::string_view word : LiteralWords(argument)) {
    words.emplace_back(word);
  }
  if (command.text.arguments == "[COMMAND]") {
    for (const std::string& word : WordsAfter(program, "")) {
      words.push_back(word);
    }
  }
  return words;
}

std::set<std::string> Groups(const Program& program) {
  std::set<std::string> groups;
  for (const CommandPage& command : program.commands) {
    const std::vector<std::string> parts =
        absl::StrSplit(command.text.name, ' ');
    if (parts.size() == 2) groups.insert(parts[0]);
  }
  return groups;
}

// "--max_tokens", and "-n" where there is a letter.
std::vector<std::string> Spellings(const Option& option) {
  std::vector<std::string> spellings = {absl::StrCat("--", option.name)};
  if (option.letter != 0) {
    spellings.push_back(absl::StrCat("-", std::string(1, option.letter)));
  }
  return spellings;
}

enum class Value { kNone, kWords, kFiles, kDirectories, kOther };

Value KindOf(const Option& option) {
  if (IsSwitch(option)) return Value::kNone;
  if (!LiteralWords(option).empty()) return Value::kWords;
  if (option.value == "FILE") return Value::kFiles;
  if (option.value == "DIRECTORY") return Value::kDirectories;
  return Value::kOther;
}

// Both Bash and Zsh have COMPREPLY, compgen and complete: Zsh by bashcompinit.
// One `case` says what may follow an option of a command, another which options
// the command has.
std::string ValueCase(const Program& program) {
  std::string text;
  for (const CommandPage& command : program.commands) {
    for (const Option& option : command.options) {
      std::string reply = "return";
      switch (KindOf(option)) {
        case Value::kNone:
          continue;
        case Value::kWords:
          reply = absl::StrCat(
              "words=", Quoted(absl::StrJoin(LiteralWords(option), " ")));
          break;
        case Value::kFiles:
          reply = "files=-f";
          break;
        case Value::kDirectories:
          reply = "files=-d";
          break;
        case Value::kOther:
          break;
      }
      std::vector<std::string> patterns;
      for (const std::string& spelling : Spellings(option)) {
        patterns.push_back(
            Quoted(absl::StrCat(command.text.name, ":", spelling)));
      }
      absl::StrAppend(&text, "    ", absl::StrJoin(patterns, " | "), ") ",
                      reply, " ;;\n");
    }
  }
  return text;
}

std::string WordCase(const Program& program) {
  std::string text;
  const auto add = [&text](absl::string_view command, absl::string_view words) {
    absl::StrAppend(&text, "    ", Quoted(command), ") words=", Quoted(words),
                    " ;;\n");
  };
  for (const CommandPage& command : program.commands) {
    std::vector<std::string> words = ArgumentWords(program, command);
    for (const Option& option : command.options) {
      words.push_back(absl::StrCat("--", option.name));
    }
    add(command.text.name, absl::StrJoin(words, " "));
  }
  for (const std::string& group : Groups(program)) {
    add(group, absl::StrJoin(WordsAfter(program, group), " "));
  }
  const std::set<std::string> first = WordsAfter(program, "");
  if (!first.empty()) add("", absl::StrJoin(first, " "));
  return text;
}

std::string BashScript(const Program& program) {
  const std::string name = Identifier(program);
  // The words of commands: options come after them.
  std::string command = "  local command=\n";
  if (!Groups(program).empty()) {
    command = absl::StrCat(
        "  local command=\n"
        "  ((COMP_CWORD < 2)) || command=${COMP_WORDS[1]}\n"
        "  case $command in\n    ",
        absl::StrJoin(Groups(program), " | "),
        ")\n"
        "      ((COMP_CWORD < 3)) || [[ ${COMP_WORDS[2]} == -* ]] ||\n"
        "        command+=\" ${COMP_WORDS[2]}\" ;;\n"
        "  esac\n");
  }
  return absl::StrCat(
      name, "() {\n",
      "  local word=${COMP_WORDS[COMP_CWORD]}"
      " before=${COMP_WORDS[COMP_CWORD-1]} words= files=\n",
      command,
      "  COMPREPLY=()\n"
      // Bash takes --name=value apart at the sign.
      "  if [[ $word == = ]]; then\n"
      "    word=\n"
      "  elif [[ $before == = ]]; then\n"
      "    before=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  fi\n"
      "  # '-' and '_' are the same in names.\n"
      "  [[ $before != --* ]] || { before=${before#--}; "
      "before=--${before//-/_}; }\n"
      "  case $command:$before in\n",
      ValueCase(program),
      "  esac\n"
      "  if [[ -n $files ]]; then\n"
      "    COMPREPLY=($(compgen \"$files\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  [[ -n $words ]] || case $command in\n",
      WordCase(program),
      "  esac\n"
      "  # A script or a person may write a dash for each underscore.\n"
      "  [[ $word != --*-* ]] || words=${words//_/-}\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
      "}\n"
      "complete -o filenames -o bashdefault -F ",
      name, " ", program.name, "\n");
}

std::string FishScript(const Program& program) {
  std::string text = absl::StrCat("complete -c ", program.name, " -f\n");
  const auto add = [&](absl::string_view condition, absl::string_view rest) {
    absl::StrAppend(
        &text, "complete -c ", program.name, condition.empty() ? "" : " -n ",
        condition.empty() ? "" : Quoted(condition), " ", rest, "\n");
  };
  const auto seen = [](absl::string_view command) {
    const std::vector<std::string> parts =
        absl::StrSplit(command, ' ', absl::SkipEmpty());
    return absl::StrJoin(
        parts, "; and ", [](std::string* out, const std::string& part) {
          absl::StrAppend(out, "__fish_seen_subcommand_from ", part);
        });
  };
  for (const CommandPage& command : program.commands) {
    const std::string condition = seen(command.text.name);
    for (const Option& option : command.options) {
      std::string rest = absl::StrCat("-l ", option.name);
      if (option.letter != 0) {
        absl::StrAppend(&rest, " -s ", std::string(1, option.letter));
      }
      const Value kind = KindOf(option);
      if (kind == Value::kFiles || kind == Value::kDirectories) rest += " -rF";
      if (kind == Value::kOther) rest += " -x";
      if (kind == Value::kWords) {
        absl::StrAppend(&rest, " -xa ",
                        Quoted(absl::StrJoin(LiteralWords(option), " ")));
      }
      absl::StrAppend(
          &rest, " -d ",
          Quoted(option.help.substr(0, option.help.find_first_of(".\n"))));
      add(condition, rest);
    }
    const std::string words =
        absl::StrJoin(ArgumentWords(program, command), " ");
    if (words.empty() ||
        Groups(program).contains(std::string(command.text.name))) {
      continue;
    }
    add(condition, absl::StrCat("-a ", Quoted(words)));
  }
  const std::set<std::string> first = WordsAfter(program, "");
  for (const std::string& word : first) {
    add("__fish_use_subcommand", absl::StrCat("-a ", word));
  }
  for (const std::string& group : Groups(program)) {
    const std::string words = absl::StrJoin(WordsAfter(program, group), " ");
    add(absl::StrCat(seen(group), "; and not __fish_seen_subcommand_from ",
                     words),
        absl::StrCat("-a ", Quoted(words)));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> FormatCompletion(const Program& program,
                                             absl::string_view shell) {
  if (shell == "bash") return BashScript(program);
  if (shell == "fish") return FishScript(program);
  if (shell == "zsh") {
    // The file is loaded as a function the first time that it is needed, and
    // defines what completes from then on.
    return absl::StrCat("#compdef ", program.name,
                        "\nautoload -U +X bashcompinit && bashcompinit\n",
                        BashScript(program));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there are no completions for '", shell, "'; there are for ",
                   absl::StrReplaceAll(kShells, {{"|", ", "}})));
}

}  // namespace steadystate::client
