#include "client/options/options.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/options/utf8.h"

namespace steadystate::client {
namespace {

absl::Status Unreadable(absl::string_view text, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not ", wanted));
}

// Reads `text` into the target that it was called with.
class Reader {
 public:
  // `has_range`: what the option may be is said beside the error.
  Reader(absl::string_view text, bool has_range)
      : text_(text), has_range_(has_range) {}

  absl::Status operator()(bool* target) const {
    if (absl::SimpleAtob(text_, target)) return absl::OkStatus();
    return Unreadable(text_, "true or false");
  }
  absl::Status operator()(std::string* target) const {
    *target = std::string(text_);
    return absl::OkStatus();
  }
  absl::Status operator()(std::optional<std::string>* target) const {
    *target = std::string(text_);
    return absl::OkStatus();
  }
  absl::Status operator()(std::optional<double>* target) const {
    double value = 0;
    if (!absl::SimpleAtod(text_, &value)) {
      return Unreadable(text_, "a number");
    }
    if (!std::isfinite(value)) return Unreadable(text_, "a finite number");
    *target = value;
    return absl::OkStatus();
  }
  absl::Status operator()(std::optional<uint64_t>* target) const {
    return Whole(target, " from 0 to 18446744073709551615");
  }
  absl::Status operator()(std::optional<uint32_t>* target) const {
    return Whole(target, " from 0 to 4294967295");
  }
  absl::Status operator()(std::vector<std::string>* target) const {
    target->push_back(std::string(text_));
    return absl::OkStatus();
  }
  absl::Status operator()(absl::Duration* target) const {
    const absl::StatusOr<absl::Duration> time = ParseTime(text_);
    if (!time.ok()) return time.status();
    if (*time <= absl::ZeroDuration()) {
      return Unreadable(text_, "a duration above 0, such as 500ms, 10s or 5m");
    }
    *target = *time;
    return absl::OkStatus();
  }
  absl::Status operator()(
      const std::function<absl::Status(absl::string_view)>& read) const {
    return read(text_);
  }

 private:
  template <typename T>
  absl::Status Whole(std::optional<T>* target, absl::string_view bounds) const {
    T value = 0;
    if (!absl::SimpleAtoi(text_, &value)) {
      return NotWhole(text_, std::numeric_limits<T>::max(),
                      absl::StrCat("a whole number", has_range_ ? "" : bounds));
    }
    *target = value;
    return absl::OkStatus();
  }

  absl::string_view text_;
  bool has_range_;
};

// An option as it is written on a command line.
struct Written {
  const Option* option = nullptr;
  absl::string_view as;  // "--max_tokens" or "-n"
  std::optional<absl::string_view> value;
};

const Option* FindName(const OptionTable& table, absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  for (const Option& option : table) {
    if (option.name == wanted) return &option;
  }
  return nullptr;
}

// The switch that "no_name" or "noname" turns off, or null.
const Option* FindNegated(const OptionTable& table, absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "no")) return nullptr;
  if (absl::StartsWith(name, "-") || absl::StartsWith(name, "_")) {
    name.remove_prefix(1);
  }
  const Option* const found = FindName(table, name);
  return found != nullptr && IsSwitch(*found) ? found : nullptr;
}

// The option that `name` is known to be mistaken for, or null.
const Option* FindMistaken(const OptionTable& table, absl::string_view name) {
  for (const Option& option : table) {
    for (const absl::string_view word : absl::StrSplit(option.mistaken, '|')) {
      if (!word.empty() && word == name) return &option;
    }
  }
  return nullptr;
}

absl::Status Unknown(const OptionTable& table, absl::string_view dashes,
                     absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  if (const Option* const meant = FindMistaken(table, wanted)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown option ", dashes,
                                                   name, ", did you mean --",
                                                   meant->name, "?"));
  }
  if (absl::StrContains(name, ' ')) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", dashes, name,
                     "' begins as an option does: a text that does comes "
                     "after --, as in -- '",
                     dashes, name, "'"));
  }
  std::vector<absl::string_view> names;
  for (const Option& option : table) names.push_back(option.name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option ", dashes, name,
                   DidYouMean(wanted, names, /*dashes=*/"--")));
}

// Takes an argument that begins with '-' apart. One dash is enough for a name:
// only what is none is a letter and its value.
absl::StatusOr<Written> TakeApart(const OptionTable& table,
                                  absl::string_view argument) {
  const absl::string_view dashes =
      argument.substr(0, absl::StartsWith(argument, "--") ? 2 : 1);
  const absl::string_view rest = argument.substr(dashes.size());
  const size_t equals = rest.find('=');
  const absl::string_view name = rest.substr(0, equals);
  Written written;
  if (equals != absl::string_view::npos) {
    written.value = rest.substr(equals + 1);
  }
  written.as = argument.substr(0, dashes.size() + name.size());
  written.option = FindName(table, name);
  if (written.option != nullptr) return written;
  written.option = FindNegated(table, name);
  if (written.option != nullptr) {
    if (written.value) {
      return absl::InvalidArgumentError(
          absl::StrCat(written.as, " takes no value: leave '=", *written.value,
                       "' out, or give --", written.option->name, "=false"));
    }
    written.value = "false";
    return written;
  }
  for (const Option& option : table) {
    if (dashes.size() == 2 || option.letter == 0 || rest[0] != option.letter) {
      continue;
    }
    if (name.size() > 1 && IsSwitch(option)) break;
    written.option = &option;
    written.as = argument.substr(0, 2);
    if (name.size() > 1) written.value = rest.substr(1);
    return written;
  }
  return Unknown(table, dashes, name);
}

absl::Status Read(const Written& written, absl::string_view value) {
  const Option& option = *written.option;
  // What names a file may be any bytes.
  const bool is_path = option.value == "FILE" || option.value == "DIRECTORY";
  absl::Status read = is_path ? absl::OkStatus() : CheckUtf8(value);
  if (read.ok()) {
    read = std::visit(Reader(value, !option.range.empty()), option.target);
  }
  if (read.ok()) return read;
  return absl::InvalidArgumentError(absl::StrCat(
      written.as, ": ", read.message(),
      option.range.empty() ? "" : absl::StrCat("; it may be ", option.range)));
}

// Number of insertions, deletions and replacements that turn a into b.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

bool IsSwitch(const Option& option) {
  return std::holds_alternative<bool*>(option.target);
}

absl::StatusOr<std::vector<std::string>> ParseOptions(
    const OptionTable& table, const std::vector<std::string>& arguments) {
  std::vector<std::string> others;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const absl::string_view argument = arguments[i];
    if (argument == "--") {
      others.insert(others.end(),
                    arguments.begin() + static_cast<ptrdiff_t>(i) + 1,
                    arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      others.emplace_back(argument);
      continue;
    }
    const auto written = TakeApart(table, argument);
    if (!written.ok()) return written.status();
    absl::string_view value = "true";
    if (written->value) {
      value = *written->value;
    } else if (!IsSwitch(*written->option)) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            written->as, " needs a value: ", written->option->value));
      }
      value = arguments[i];
    }
    const absl::Status read = Read(*written, value);
    if (!read.ok()) return read;
  }
  return others;
}

absl::StatusOr<absl::Duration> ParseTime(absl::string_view text) {
  absl::Duration time;
  if (absl::ParseDuration(text, &time)) return time;
  double number = 0;
  if (absl::SimpleAtod(text, &number)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' has no unit: ms, s, m or h, such as ", text, "s"));
  }
  return Unreadable(text, "a duration such as 500ms, 10s or 1h30m");
}

absl::string_view Closest(absl::string_view word,
                          const std::vector<absl::string_view>& candidates) {
  absl::string_view closest;
  // More than a third of the letters wrong is another word.
  size_t least = word.size() / 3 + 2;
  for (const absl::string_view candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < least) {
      least = distance;
      closest = candidate;
    }
  }
  return closest;
}

absl::Status NotWhole(absl::string_view text, uint64_t most,
                      absl::string_view wanted) {
  const bool digits =
      !text.empty() && std::all_of(text.begin(), text.end(),
                                   [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) return Unreadable(text, wanted);
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is more than ", most, ", the most"));
}

std::string DidYouMean(absl::string_view word,
                       const std::vector<absl::string_view>& candidates,
                       absl::string_view dashes) {
  const absl::string_view closest = Closest(word, candidates);
  if (closest.empty()) return "";
  return absl::StrCat(", did you mean ", dashes, closest, "?");
}

}  // namespace steadystate::client
