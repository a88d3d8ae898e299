#include "server/text/marked_text.h"

#include "server/text/unicode.h"

namespace steadystate {

std::string Joined(std::span<const TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) {
    text.append(part.text.data(), part.text.size());
  }
  return text;
}

MarkedText MarkedUtf8(std::span<const TextPart> parts) {
  MarkedText whole{.text = Joined(parts), .literal = ""};
  bool any = false;
  for (const TextPart& part : parts) {
    any |= part.literal && !part.text.empty();
  }
  std::string utf8 = ToUtf8(whole.text);
  if (!any) return {.text = std::move(utf8), .literal = ""};
  const bool is_utf8 = utf8 == whole.text;
  if (!is_utf8) whole.text.clear();
  for (const TextPart& part : parts) {
    size_t bytes = part.text.size();
    if (!is_utf8) {
      const std::string converted = ToUtf8(part.text);
      whole.text += converted;
      bytes = converted.size();
    }
    whole.literal.append(bytes, part.literal ? kLiteral : kNotLiteral);
  }
  return whole;
}

absl::string_view MarksOrNone(absl::string_view literal) {
  return HasLiteral(literal) ? literal : absl::string_view();
}

}  // namespace steadystate
