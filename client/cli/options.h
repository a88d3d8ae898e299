#ifndef STEADYSTATE_CLIENT_CLI_OPTIONS_H_
#define STEADYSTATE_CLIENT_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate::client {

// Where an option's value goes; the type says how it is read. Optional ones
// stay empty if the option is not given, and vectors take one value each time
// that it is given. A function reads the value itself.
using OptionTarget =
    std::variant<bool*, std::string*, std::optional<std::string>*,
                 std::optional<double>*, std::optional<uint64_t>*,
                 std::optional<uint32_t>*, std::vector<std::string>*,
                 absl::Duration*,
                 std::function<absl::Status(absl::string_view)>>;

// One option of a command, written --name VALUE or --name=VALUE. A switch
// (bool) is written --name or --name=false. '-' and '_' are the same in names.
struct Option {
  absl::string_view name;   // "max_tokens"
  absl::string_view value;  // what stands for the value in help: "N"
  absl::string_view help;   // one or more sentences
  OptionTarget target;
};

// The options of a command, in the order in which help shows them.
using OptionTable = std::vector<Option>;

// Reads `arguments` into the targets of `table` and returns what is not an
// option, in order. "--" ends the options; "-" alone is none. Where an option
// is given twice the last one counts. INVALID_ARGUMENT, with a text for people,
// for unknown options and for values that cannot be read.
absl::StatusOr<std::vector<std::string>> ParseOptions(
    const OptionTable& table, const std::vector<std::string>& arguments);

// The help text of a table: one option after the other, wrapped.
std::string FormatOptions(const OptionTable& table);

// The words of `text` in lines of at most 80 columns that begin with `indent`
// blanks.
std::string Wrap(absl::string_view text, size_t indent);

// The one of `candidates` that `word` was probably meant to be, or "".
absl::string_view Closest(absl::string_view word,
                          const std::vector<absl::string_view>& candidates);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_OPTIONS_H_
