#include "client/cli/input.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace steadystate::client {
namespace {

bool Continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::vector<Input> CutText(const std::string& text, size_t length) {
  std::vector<Input> pieces;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(begin + length, text.size());
    while (end < text.size() && end > begin + 1 && Continues(text[end])) --end;
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

std::vector<Input> CutIds(const std::vector<int32_t>& ids, size_t length) {
  std::vector<Input> pieces;
  for (size_t begin = 0; begin < ids.size(); begin += length) {
    const size_t end = std::min(begin + length, ids.size());
    pieces.emplace_back(
        std::vector<int32_t>(ids.begin() + static_cast<ptrdiff_t>(begin),
                             ids.begin() + static_cast<ptrdiff_t>(end)));
  }
  return pieces;
}

absl::StatusOr<std::optional<Input>> Text(std::string text) {
  const absl::Status checked = CheckUtf8(text);
  if (checked.ok()) return Input(std::move(text));
  return absl::InvalidArgumentError(absl::StrCat(
      checked.message(), "; other bytes can be given as token ids"));
}

}  // namespace

size_t Length(const Input& input) {
  return std::visit([](const auto& value) { return value.size(); }, input);
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const bool is_stdin = path == "-";
  const std::unique_ptr<FILE, int (*)(FILE*)> opened(
      is_stdin ? nullptr : std::fopen(path.c_str(), "rb"),
      [](FILE* file) { return file == nullptr ? 0 : std::fclose(file); });
  FILE* const file = is_stdin ? stdin : opened.get();
  const auto failure = [&path] {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  };
  if (file == nullptr) return failure();
  std::string content;
  std::vector<char> buffer(size_t{1} << 16);
  while (const size_t count =
             std::fread(buffer.data(), 1, buffer.size(), file)) {
    if (content.size() + count > kMaxFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has more than ", kMaxFileBytes,
                       " bytes, the most that is ", "read"));
    }
    content.append(buffer.data(), count);
  }
  if (std::ferror(file) != 0) return failure();
  return content;
}

absl::StatusOr<std::vector<int32_t>> ParseTokenIds(absl::string_view json) {
  const auto parsed =
      nlohmann::json::parse(json.begin(), json.end(), /*callback=*/nullptr,
                            /*allow_exceptions=*/false);
  if (!parsed.is_array()) {
    return absl::InvalidArgumentError(
        "token ids must be a JSON array of whole numbers, such as [72, 105]");
  }
  std::vector<int32_t> ids;
  ids.reserve(parsed.size());
  for (const auto& element : parsed) {
    // Negative numbers are not unsigned in the parser's eyes.
    const uint64_t id = element.is_number_unsigned()
                            ? element.get<uint64_t>()
                            : std::numeric_limits<uint64_t>::max();
    if (id > uint64_t{std::numeric_limits<int32_t>::max()}) {
      return absl::InvalidArgumentError(
          absl::StrCat("element ", ids.size(), " of the token ids is ",
                       element.dump(), ", not a token id"));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<Input> Cut(const Input& input, size_t length) {
  if (const auto* text = std::get_if<std::string>(&input)) {
    return CutText(*text, length);
  }
  return CutIds(std::get<std::vector<int32_t>>(input), length);
}

InputOptions::InputOptions(const std::string& name, char letter)
    : name_(name), file_name_(absl::StrCat(name, "_file")), letter_(letter) {}

void InputOptions::AppendTo(OptionTable& table) {
  table.push_back({name_, "TEXT",
                   "The text itself, in UTF-8, as the argument TEXT has it.",
                   &text_, letter_});
  table.push_back({file_name_, "FILE",
                   "A file with the text; - is standard input.", &text_file_});
  table.push_back({"token_ids_file", "FILE",
                   "A file with token ids instead, as a JSON array of whole "
                   "numbers; - is standard input.",
                   &ids_file_});
}

absl::Status InputOptions::TakeArguments(
    const std::vector<std::string>& arguments) {
  if (arguments.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[1], "': the ", name_,
                     " is one argument, in quotes, such as '", arguments[0],
                     " ", arguments[1], "'"));
  }
  if (!arguments.empty()) argument_ = arguments[0];
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Input>> InputOptions::Read() const {
  const int given = static_cast<int>(argument_.has_value()) +
                    static_cast<int>(text_.has_value()) +
                    static_cast<int>(text_file_.has_value()) +
                    static_cast<int>(ids_file_.has_value());
  if (given > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("give only one of ", Names()));
  }
  if (given == 0) return std::nullopt;
  if (argument_) return Text(*argument_);
  if (text_) return Text(*text_);
  auto content = ReadFile(text_file_ ? *text_file_ : *ids_file_);
  if (!content.ok()) return content.status();
  if (text_file_) return Text(*std::move(content));
  auto ids = ParseTokenIds(*content);
  if (!ids.ok()) return ids.status();
  return Input(*std::move(ids));
}

std::string InputOptions::Source() const {
  if (text_file_) return *text_file_;
  if (ids_file_) return *ids_file_;
  return text_ ? absl::StrCat("--", name_) : "TEXT";
}

std::string InputOptions::Names() const {
  return absl::StrCat("TEXT, --", name_, ", --", file_name_,
                      " and --token_ids_file");
}

}  // namespace steadystate::client
