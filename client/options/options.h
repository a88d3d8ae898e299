#ifndef STEADYSTATE_CLIENT_OPTIONS_OPTIONS_H_
#define STEADYSTATE_CLIENT_OPTIONS_OPTIONS_H_

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

// One option of a command, written --name VALUE or --name=VALUE; with a letter
// also -l VALUE, -l=VALUE and -lVALUE. A switch (bool) is written --name,
// --name=false or --no_name. '-' and '_' are the same in names.
struct Option {
  absl::string_view name;  // "max_tokens"
  // What stands for the value in help: "N", or the words that it may be,
  // "step|generate". FILE and DIRECTORY are completed as such.
  absl::string_view value;
  absl::string_view help;  // one or more sentences
  OptionTarget target;
  char letter = 0;  // 0: none
  // What the value may be, with its unit: "1s to 720h". Shown in help and where
  // a value cannot be read; whoever gets the value checks it.
  absl::string_view range = {};
  // What holds if it is not given, if help does not say so in words.
  std::string initial = {};
  // What people write in place of the name, "by|tokens": it is no option, and
  // the error tells the name.
  absl::string_view mistaken = {};
};

// The options of a command, in the order in which help shows them.
using OptionTable = std::vector<Option>;

bool IsSwitch(const Option& option);

// Reads `arguments` into the targets of `table` and returns what is not an
// option, in order. "--" ends the options; "-" alone is none. Where an option
// is given twice the last one counts. INVALID_ARGUMENT, with a text for people,
// for unknown options and for values that cannot be read.
absl::StatusOr<std::vector<std::string>> ParseOptions(
    const OptionTable& table, const std::vector<std::string>& arguments);

// Reads "500ms", "10s", "1h30m", "0" or "inf". INVALID_ARGUMENT for anything
// else: a number alone is told to take a unit.
absl::StatusOr<absl::Duration> ParseTime(absl::string_view text);

// What a text that could not be read as a whole number up to `most` is: none,
// or a larger one. `wanted`: what it should be, "a whole number".
absl::Status NotWhole(absl::string_view text, uint64_t most,
                      absl::string_view wanted = "a whole number");

// The one of `candidates` that `word` was probably meant to be, or "".
absl::string_view Closest(absl::string_view word,
                          const std::vector<absl::string_view>& candidates);

// ", did you mean NAME?", or nothing where no candidate is close; `dashes` come
// before the name.
std::string DidYouMean(absl::string_view word,
                       const std::vector<absl::string_view>& candidates,
                       absl::string_view dashes = "");

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_OPTIONS_OPTIONS_H_
