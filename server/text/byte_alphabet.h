#ifndef STEADYSTATE_SERVER_TEXT_BYTE_ALPHABET_H_
#define STEADYSTATE_SERVER_TEXT_BYTE_ALPHABET_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/text/growth.h"

namespace steadystate {

// The alphabet of byte-level BPE, from GPT-2: each byte is written as one
// printable character. Visible Latin-1 stands for itself, the other 68 bytes in
// order for U+0100 and what follows.

// The bytes of `text` in that alphabet.
std::string ToByteAlphabet(absl::string_view text);

// A character of it has one or two bytes.
inline constexpr Growth kByteAlphabetGrowth = {.factor = 2};

// Appends the bytes that a token in that alphabet stands for. A token with any
// other character stands for itself, as in the reference library.
// REQUIRES: `token` is UTF-8.
void AppendFromByteAlphabet(absl::string_view token, std::string& to);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_BYTE_ALPHABET_H_
