#include "server/text/rwkv_tokenizer.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/status_macros.h"
#include "server/text/marked_text.h"
#include "server/text/prefix_table.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

// The value of the first `digits` hexadecimal digits, which are taken from
// `rest`.
std::optional<uint32_t> TakeHex(size_t digits, absl::string_view& rest) {
  uint32_t value = 0;
  if (rest.size() < digits) return std::nullopt;
  for (size_t i = 0; i < digits; ++i) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(rest[i]))) {
      return std::nullopt;
    }
  }
  if (!absl::SimpleHexAtoi(rest.substr(0, digits), &value)) {
    return std::nullopt;
  }
  rest.remove_prefix(digits);
  return value;
}

bool IsCharacter(uint32_t code) {
  return code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

// What follows a backslash is taken from `rest`; false if it is no escape.
bool TakeEscape(bool is_bytes, absl::string_view& rest, std::string& to) {
  if (rest.empty()) return false;
  const char letter = rest[0];
  rest.remove_prefix(1);
  size_t digits = 0;
  switch (letter) {
    case 'n':
      to.push_back('\n');
      return true;
    case 'r':
      to.push_back('\r');
      return true;
    case 't':
      to.push_back('\t');
      return true;
    case '\\':
    case '\'':
    case '"':
      to.push_back(letter);
      return true;
    case 'x':
      digits = 2;
      break;
    case 'u':
      digits = 4;
      break;
    case 'U':
      digits = 8;
      break;
    default:
      return false;
  }
  if (is_bytes && digits != 2) return false;
  const std::optional<uint32_t> code = TakeHex(digits, rest);
  if (!code.has_value() || !IsCharacter(*code)) return false;
  if (is_bytes) {
    to.push_back(static_cast<char>(*code));
  } else {
    AppendUtf8(*code, to);
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> ParsePythonLiteral(absl::string_view literal) {
  const auto refuse = [literal] {
    return absl::InvalidArgumentError(absl::StrCat(
        literal.substr(0, 80), " is no literal of a Python string or bytes"));
  };
  absl::string_view rest = literal;
  const bool is_bytes = absl::ConsumePrefix(&rest, "b");
  if (rest.size() < 2) return refuse();
  const char quote = rest.front();
  if ((quote != '\'' && quote != '"') || rest.back() != quote) return refuse();
  rest = rest.substr(1, rest.size() - 2);
  std::string bytes;
  while (!rest.empty()) {
    const char c = rest[0];
    rest.remove_prefix(1);
    if (c == quote) return refuse();
    if (c == '\\') {
      if (!TakeEscape(is_bytes, rest, bytes)) return refuse();
    } else if (is_bytes &&
               !absl::ascii_isascii(static_cast<unsigned char>(c))) {
      return refuse();
    } else {
      bytes.push_back(c);
    }
  }
  return bytes;
}

namespace {

// Bounds the time for a text; the vocabulary in use has 128.
constexpr size_t kMaxEntryBytes = 1024;

class RwkvTokenizer final : public Tokenizer {
 public:
  // `bytes` has one entry per id, empty for ids that are no token's.
  explicit RwkvTokenizer(std::vector<std::string> bytes)
      : table_(EntriesOf(bytes)), bytes_(std::move(bytes)) {}

  absl::string_view kind() const override { return "rwkv"; }

  // The vocabulary's files begin with 1; 0 ends a text.
  bool HasToken(int32_t token) const override {
    return token == 0 || !bytes_[static_cast<size_t>(token)].empty();
  }

  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size() / 3);
    while (!text.empty()) {
      const PrefixTable::Match match = table_.Longest(text);
      tokens.push_back(match.token);
      text.remove_prefix(match.bytes);
    }
    return tokens;
  }

  // All of its tokens are text.
  absl::StatusOr<std::vector<int32_t>> EncodeParts(
      std::span<const TextPart> parts) const override {
    return Encode(Joined(parts));
  }

  void AppendBytes(int32_t token, std::string& to) const override {
    to += bytes_[static_cast<size_t>(token)];
  }

  // True if `byte` alone is a token.
  bool Has(char byte) const {
    return table_.Longest(absl::string_view(&byte, 1)).bytes == 1;
  }

 private:
  static std::vector<PrefixTable::Entry> EntriesOf(
      const std::vector<std::string>& bytes) {
    std::vector<PrefixTable::Entry> entries;
    for (size_t id = 0; id < bytes.size(); ++id) {
      if (bytes[id].empty()) continue;
      entries.push_back({bytes[id], static_cast<int32_t>(id)});
    }
    return entries;
  }

  const PrefixTable table_;
  const std::vector<std::string> bytes_;
};

// Reads `line` into the entry of its id.
absl::Status ReadLine(absl::string_view line, std::vector<std::string>& bytes) {
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  size_t id = 0;
  size_t length = 0;
  if (first == absl::string_view::npos || first == last ||
      !absl::SimpleAtoi(line.substr(0, first), &id) ||
      !absl::SimpleAtoi(line.substr(last + 1), &length)) {
    return absl::InvalidArgumentError("not an id, a literal and a length");
  }
  STEADYSTATE_ASSIGN_OR_RETURN(
      std::string token,
      ParsePythonLiteral(line.substr(first + 1, last - first - 1)));
  if (token.size() != length || length == 0 || length > kMaxEntryBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a token of ", token.size(), " bytes that is said to have ", length,
        ", of 1 to ", kMaxEntryBytes));
  }
  if (id >= bytes.size() || !bytes[id].empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the id ", id, ", which is given twice or beyond the model's ",
        bytes.size(), " tokens"));
  }
  bytes[id] = std::move(token);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeRwkvTokenizer(
    absl::string_view text, absl::string_view what, size_t vocab_size) {
  std::vector<std::string> bytes(vocab_size);
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty()) continue;
    const absl::Status read = ReadLine(line, bytes);
    if (!read.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ", line ", number, ": ", read.message()));
    }
  }
  auto tokenizer = std::make_unique<RwkvTokenizer>(std::move(bytes));
  for (int byte = 0; byte < 256; ++byte) {
    if (!tokenizer->Has(static_cast<char>(byte))) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": the byte ", byte, " is no token"));
    }
  }
  return tokenizer;
}

}  // namespace steadystate
