#include "server/text/python_literal.h"

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/text/utf8.h"

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

}  // namespace steadystate
