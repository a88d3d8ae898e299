#ifndef STEADYSTATE_SERVER_TEXT_MARKED_TEXT_H_
#define STEADYSTATE_SERVER_TEXT_MARKED_TEXT_H_

#include <cstddef>
#include <span>
#include <string>

#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"

namespace steadystate {

inline constexpr char kLiteral = '\1';
inline constexpr char kNotLiteral = '\0';

// A text, and which of its bytes come from literal parts.
struct MarkedText {
  std::string text;
  // As long as the text, kLiteral or kNotLiteral for each byte. Empty: no byte
  // is literal.
  std::string literal;
};

// What all parts say together, unchanged.
std::string Joined(std::span<const TextPart> parts);

// The same as UTF-8, as ToUtf8 makes it, with its literal bytes marked. If the
// whole is no UTF-8 and a byte is literal, each part is converted by itself.
MarkedText MarkedUtf8(std::span<const TextPart> parts);

// `literal` without what is not needed: empty if no byte is literal.
absl::string_view MarksOrNone(absl::string_view literal);

// True if one of these bytes of the text is literal.
inline bool HasLiteral(absl::string_view literal) {
  return literal.find(kLiteral) != absl::string_view::npos;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_MARKED_TEXT_H_
