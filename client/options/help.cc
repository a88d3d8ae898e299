#include "client/options/help.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace steadystate::client {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kOptionIndent = 6;

// Blanks at the start of the line are kept, before every line of it.
std::string WrapLine(absl::string_view text, size_t indent) {
  const absl::string_view words = absl::StripLeadingAsciiWhitespace(text);
  indent += text.size() - words.size();
  std::string lines;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(words, ' ')) {
    if (column > 0 && column + 1 + word.size() > kColumns) {
      lines += '\n';
      column = 0;
    }
    const size_t blanks = column == 0 ? indent : 1;
    lines.append(blanks, ' ');
    absl::StrAppend(&lines, word);
    column += blanks + word.size();
  }
  return lines + "\n";
}

// "word   meaning", the meaning wrapped in its column.
std::string Aligned(absl::string_view word, absl::string_view meaning,
                    size_t column) {
  // The word takes the place of as many blanks.
  std::string text = Wrap(meaning, column);
  return text.replace(2, word.size(), std::string(word));
}

std::vector<Meaning> CommandsOf(const Program& program,
                                absl::string_view group) {
  std::vector<Meaning> commands;
  for (const CommandPage& command : program.commands) {
    const CommandText& text = command.text;
    if (group.empty() ||
        absl::StartsWith(text.name, absl::StrCat(group, " "))) {
      commands.push_back({text.name, text.summary});
    }
  }
  return commands;
}

}  // namespace

std::string CalledAs(const Program& program, const CommandText& text) {
  return absl::StrCat(program.name, text.name.empty() ? "" : " ", text.name,
                      text.arguments.empty() ? "" : " ", text.arguments);
}

std::vector<absl::string_view> LiteralWords(const Option& option) {
  std::vector<absl::string_view> words;
  for (const absl::string_view word : absl::StrSplit(option.value, '|')) {
    const bool literal =
        !word.empty() && std::none_of(word.begin(), word.end(), [](char c) {
          return absl::ascii_isupper(static_cast<unsigned char>(c));
        });
    if (literal) words.push_back(word);
  }
  return words;
}

std::string FormatOverview(const Program& program, absl::string_view group) {
  std::string text =
      Wrap(absl::StrCat(program.name, ": ", program.summary), /*indent=*/0);
  absl::StrAppend(&text, "\nUsage: ", program.name, " ", group,
                  group.empty() ? "" : " ", "COMMAND [OPTIONS]\n\nCommands:\n",
                  FormatMeanings(CommandsOf(program, group)));
  if (!group.empty()) {
    return absl::StrCat(text, "\n", program.name, " help ", group,
                        " COMMAND shows a command's options and examples.\n");
  }
  return absl::StrCat(text, "\n", Wrap(program.description, 0),
                      "\nExit codes:\n", FormatMeanings(program.exit_codes));
}

std::string FormatHelp(const Program& program, const CommandPage& command) {
  return absl::StrCat(
      Wrap(absl::StrCat("Usage: ", CalledAs(program, command.text),
                        " [OPTIONS]"),
           0),
      "\n", Wrap(command.text.description, 0), "\nOptions:\n",
      FormatOptions(command.options), "\nExamples:\n", command.text.examples);
}

std::string FormatOptions(const OptionTable& table) {
  std::string text;
  for (const Option& option : table) {
    text += "  ";
    if (option.letter != 0) {
      absl::StrAppend(&text, "-", std::string(1, option.letter), ", ");
    }
    absl::StrAppend(&text, "--", option.name);
    if (!option.value.empty()) absl::StrAppend(&text, " ", option.value);
    absl::StrAppend(&text, "\n", Wrap(Sentences(option), kOptionIndent));
  }
  return text;
}

std::string Sentences(const Option& option) {
  std::string text(option.help);
  if (!option.range.empty()) {
    std::string range(option.range);
    range[0] = absl::ascii_toupper(static_cast<unsigned char>(range[0]));
    absl::StrAppend(&text, " ", range, ".");
  }
  if (!option.initial.empty()) {
    absl::StrAppend(&text, " Default ", option.initial, ".");
  }
  return text;
}

std::string FormatMeanings(const std::vector<Meaning>& meanings) {
  size_t width = 0;
  for (const Meaning& row : meanings) width = std::max(width, row.word.size());
  std::string text;
  for (const Meaning& row : meanings) {
    text += Aligned(row.word, row.meaning, width + 4);
  }
  return text;
}

std::string Wrap(absl::string_view text, size_t indent) {
  std::string lines;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    lines += line.empty() ? "\n" : WrapLine(line, indent);
  }
  return lines;
}

}  // namespace steadystate::client
