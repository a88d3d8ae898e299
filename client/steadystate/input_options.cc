#include "client/steadystate/input_options.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace steadystate::client {
namespace {

absl::StatusOr<std::optional<Input>> Text(std::string text) {
  const absl::Status checked = CheckUtf8(text);
  if (!checked.ok()) return checked;
  return Input(std::move(text));
}

}  // namespace

InputOptions::InputOptions(const std::string& name)
    : name_(name), file_name_(absl::StrCat(name, "_file")) {}

void InputOptions::AppendTo(OptionTable& table) {
  table.push_back({name_, "TEXT", "The text itself, in UTF-8.", &text_});
  table.push_back({file_name_, "FILE",
                   "A file with the text; - is standard input.", &text_file_});
  table.push_back({"token_ids_file", "FILE",
                   "A file with token ids instead, as a JSON array of whole "
                   "numbers; - is standard input.",
                   &ids_file_});
}

absl::StatusOr<std::optional<Input>> InputOptions::Read() const {
  const int given = static_cast<int>(text_.has_value()) +
                    static_cast<int>(text_file_.has_value()) +
                    static_cast<int>(ids_file_.has_value());
  if (given > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("give only one of ", Names()));
  }
  if (given == 0) return std::nullopt;
  if (text_) return Text(*text_);
  auto content = ReadFile(text_file_ ? *text_file_ : *ids_file_);
  if (!content.ok()) return content.status();
  if (text_file_) return Text(*std::move(content));
  auto ids = ParseTokenIds(*content);
  if (!ids.ok()) return ids.status();
  return Input(*std::move(ids));
}

std::string InputOptions::Names() const {
  return absl::StrCat("--", name_, ", --", file_name_, " and --token_ids_file");
}

}  // namespace steadystate::client
