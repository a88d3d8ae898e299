#include "client/options/manual.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/options/help.h"

namespace steadystate::client {
namespace {

// Text that troff shows as it is: a dot or an apostrophe would begin a request
// at the start of a line, and a bare '-' is a hyphen.
std::string Escaped(absl::string_view text) {
  std::string escaped;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::StrAppend(
        &escaped, escaped.empty() ? "" : "\n",
        line.substr(0, 1) == "." || line.substr(0, 1) == "'" ? "\\&" : "",
        absl::StrReplaceAll(line, {{"\\", "\\e"}, {"-", "\\-"}}));
  }
  return escaped;
}

// Paragraphs: a line end of the text begins one.
std::string Paragraphs(absl::string_view text) {
  return absl::StrReplaceAll(Escaped(text), {{"\n", "\n.PP\n"}});
}

std::string Bold(absl::string_view text) {
  return absl::StrCat("\\fB", Escaped(text), "\\fR");
}

std::string Italic(absl::string_view text) {
  return absl::StrCat("\\fI", Escaped(text), "\\fR");
}

std::string OptionHead(const Option& option) {
  std::string head;
  if (option.letter != 0) {
    head = absl::StrCat(Bold(absl::StrCat("-", std::string(1, option.letter))),
                        ", ");
  }
  absl::StrAppend(&head, Bold(absl::StrCat("--", option.name)));
  if (!option.value.empty()) absl::StrAppend(&head, " ", Italic(option.value));
  return head;
}

std::string CommandSection(const Program& program, const CommandPage& command) {
  std::string text;
  if (!command.text.name.empty()) {
    absl::StrAppend(&text, ".SS \"", Escaped(CalledAs(program, command.text)),
                    "\"\n", Paragraphs(command.text.description), "\n");
  }
  for (const Option& option : command.options) {
    absl::StrAppend(&text, ".TP\n", OptionHead(option), "\n",
                    Escaped(Sentences(option)), "\n");
  }
  if (!command.text.examples.empty()) {
    absl::StrAppend(&text, ".PP\nExamples:\n.PP\n.nf\n.RS\n");
    for (const absl::string_view line :
         absl::StrSplit(command.text.examples, '\n', absl::SkipEmpty())) {
      absl::StrAppend(&text, Escaped(absl::StripAsciiWhitespace(line)), "\n");
    }
    text += ".RE\n.fi\n";
  }
  return text;
}

std::string MeaningSection(absl::string_view title,
                           const std::vector<Meaning>& meanings) {
  if (meanings.empty()) return "";
  std::string text = absl::StrCat(".SH ", title, "\n");
  for (const Meaning& row : meanings) {
    absl::StrAppend(&text, ".TP\n", Bold(row.word), "\n", Escaped(row.meaning),
                    "\n");
  }
  return text;
}

}  // namespace

std::string FormatManual(const Program& program) {
  const bool one =
      program.commands.size() == 1 && program.commands[0].text.name.empty();
  std::string text = absl::StrCat(
      ".TH ", absl::AsciiStrToUpper(program.name), " 1 \"\" \"Steadystate ",
      program.version, "\"\n.SH NAME\n", Escaped(program.name), " \\- ",
      Escaped(program.summary), "\n.SH SYNOPSIS\n", Bold(program.name), " ",
      one ? "" : Italic("COMMAND"), one ? "" : " ", "[", Italic("OPTIONS"),
      "]\n.SH DESCRIPTION\n", Paragraphs(program.description), "\n.SH ",
      one ? "OPTIONS" : "COMMANDS", "\n");
  for (const CommandPage& command : program.commands) {
    text += CommandSection(program, command);
  }
  return absl::StrCat(text, MeaningSection("ENVIRONMENT", program.environment),
                      MeaningSection("EXIT STATUS", program.exit_codes));
}

}  // namespace steadystate::client
