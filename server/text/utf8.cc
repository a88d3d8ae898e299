#include "server/text/utf8.h"

#include "server/text/text_stream.h"

namespace steadystate {
namespace {

constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string ToUtf8(absl::string_view text) {
  TextStream stream({}, "");
  std::string utf8 = stream.Append(text);
  utf8 += stream.Flush();
  if (!stream.unfinished().empty()) {
    utf8.append(kReplacement.data(), kReplacement.size());
  }
  return utf8;
}

Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return {code, bytes};
}

Character LastCharacter(absl::string_view text) {
  size_t start = text.size() - 1;
  while (IsContinuation(text[start])) --start;
  return FirstCharacter(text.substr(start));
}

void AppendUtf8(char32_t code, std::string& to) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code));
    return;
  }
  const int trailing = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  // 110..., 1110... or 11110...
  const unsigned marker = 0xFF00u >> (trailing + 1) & 0xFFu;
  to.push_back(static_cast<char>(marker | code >> (6 * trailing)));
  for (int i = trailing - 1; i >= 0; --i) {
    to.push_back(static_cast<char>(0x80u | (code >> (6 * i) & 0x3Fu)));
  }
}

bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

}  // namespace steadystate
