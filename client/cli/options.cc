#include "client/cli/options.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace steadystate::client {
namespace {

constexpr size_t kHelpColumns = 80;
constexpr size_t kHelpIndent = 6;

absl::Status Unreadable(absl::string_view text, absl::string_view wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not ", wanted));
}

// Reads `text` into the target that it was called with.
class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

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
    *target = value;
    return absl::OkStatus();
  }
  absl::Status operator()(std::optional<uint64_t>* target) const {
    return Whole(target, "a whole number from 0 to 18446744073709551615");
  }
  absl::Status operator()(std::optional<uint32_t>* target) const {
    return Whole(target, "a whole number from 0 to 4294967295");
  }
  absl::Status operator()(std::vector<std::string>* target) const {
    target->push_back(std::string(text_));
    return absl::OkStatus();
  }
  absl::Status operator()(absl::Duration* target) const {
    if (absl::ParseDuration(text_, target) && *target > absl::ZeroDuration()) {
      return absl::OkStatus();
    }
    return Unreadable(text_, "a duration above 0 such as 500ms, 10s or 5m");
  }
  absl::Status operator()(
      const std::function<absl::Status(absl::string_view)>& read) const {
    return read(text_);
  }

 private:
  template <typename T>
  absl::Status Whole(std::optional<T>* target, absl::string_view wanted) const {
    T value = 0;
    if (!absl::SimpleAtoi(text_, &value)) return Unreadable(text_, wanted);
    *target = value;
    return absl::OkStatus();
  }

  absl::string_view text_;
};

bool IsSwitch(const Option& option) {
  return std::holds_alternative<bool*>(option.target);
}

absl::StatusOr<const Option*> Find(const OptionTable& table,
                                   absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  std::vector<absl::string_view> names;
  for (const Option& option : table) {
    if (option.name == wanted) return &option;
    names.push_back(option.name);
  }
  const absl::string_view closest = Closest(wanted, names);
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown option --", name,
      closest.empty() ? "" : absl::StrCat(", did you mean --", closest, "?")));
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
  return row[b.size()];
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseOptions(
    const OptionTable& table, const std::vector<std::string>& arguments) {
  std::vector<std::string> others;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
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
    argument.remove_prefix(argument[1] == '-' ? 2 : 1);
    const size_t equals = argument.find('=');
    const auto option = Find(table, argument.substr(0, equals));
    if (!option.ok()) return option.status();
    const absl::string_view name = (*option)->name;
    absl::string_view value = "true";
    if (equals != absl::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (!IsSwitch(**option)) {
      if (++i == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, " needs a value: ", (*option)->value));
      }
      value = arguments[i];
    }
    const absl::Status read = std::visit(Reader(value), (*option)->target);
    if (!read.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, ": ", read.message()));
    }
  }
  return others;
}

std::string FormatOptions(const OptionTable& table) {
  std::string text;
  for (const Option& option : table) {
    absl::StrAppend(&text, "  --", option.name);
    if (!option.value.empty()) absl::StrAppend(&text, " ", option.value);
    text += '\n';
    text += Wrap(option.help, kHelpIndent);
  }
  return text;
}

std::string Wrap(absl::string_view text, size_t indent) {
  std::string lines;
  size_t column = 0;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > kHelpColumns) {
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

}  // namespace steadystate::client
