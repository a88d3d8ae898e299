#ifndef STEADYSTATE_SERVER_TEXT_UTF8_H_
#define STEADYSTATE_SERVER_TEXT_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// One character of a text.
struct Character {
  char32_t code;
  size_t bytes;  // of its UTF-8 form, 1 to 4
};

// `text` with U+FFFD for what is not UTF-8, as in WHATWG decoding.
std::string ToUtf8(absl::string_view text);

// The first and the last character of a text.
// REQUIRES: `text` is UTF-8 and not empty.
Character FirstCharacter(absl::string_view text);
Character LastCharacter(absl::string_view text);

// Appends the UTF-8 form of a code point.
void AppendUtf8(char32_t code, std::string& to);

// Unicode's White_Space: what `\s` means to the reference tokenizer library.
bool IsWhiteSpace(char32_t code);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_UTF8_H_
