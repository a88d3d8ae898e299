#ifndef STEADYSTATE_CLIENT_OPTIONS_HELP_H_
#define STEADYSTATE_CLIENT_OPTIONS_HELP_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/options/options.h"
#include "client/options/program.h"

namespace steadystate::client {

// What --help prints, in lines of at most 80 columns.

// The commands of a program, or those whose names begin with `group` and a
// blank, with what they do.
std::string FormatOverview(const Program& program, absl::string_view group);

// One command: how it is called, what it does, its options, examples.
std::string FormatHelp(const Program& program, const CommandPage& command);

// The help text of a table: one option after the other, wrapped.
std::string FormatOptions(const OptionTable& table);

// All that is said of an option, in sentences: its help, its range, what holds
// if it is not given.
std::string Sentences(const Option& option);

// Words and meanings, aligned and wrapped, indented by 2.
std::string FormatMeanings(const std::vector<Meaning>& meanings);

// The words of `text` in lines of at most 80 columns that begin with `indent`
// blanks. A line end in `text` begins a line.
std::string Wrap(absl::string_view text, size_t indent);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_OPTIONS_HELP_H_
