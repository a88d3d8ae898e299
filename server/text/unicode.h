#ifndef STEADYSTATE_SERVER_TEXT_UNICODE_H_
#define STEADYSTATE_SERVER_TEXT_UNICODE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

// How long a step of a tokenizer can make a text: of n bytes at most
// factor * n + added. A floating-point number, since a few dozen steps that
// each double a text are beyond any integer.
struct Growth {
  double factor = 1;
  double added = 0;

  // This step and then another.
  Growth Then(const Growth& next) const {
    return {factor * next.factor, added * next.factor + next.added};
  }

  // Most bytes that become of each byte of a text that is not empty.
  double PerByte() const { return factor + added; }
};

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

// Of UTF-8: is all of it white space, or U+2581, which stands for a space in
// vocabularies? Such tokens stand for text in models of code.
bool IsBlank(absl::string_view text);

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

// What the reference tokenizer library takes characters for. Its parts know
// different versions of Unicode, from 9 to 17, and Debian's libraries know 14
// or newer ones: so these are tables of its own (unicode_tables.inc), which are
// the same wherever the server is built. All are thread-safe.

// Beside these a token that is a single word is none: Unicode's \w, which is
// letters, marks, decimal digits, letter numbers, connecting punctuation,
// joiners and letters in circles and squares.
bool IsWordCharacter(char32_t code);

// What the step "Digits" cuts at: decimal digits, and numbers of other kinds.
bool IsNumber(char32_t code);

// What the step "Punctuation" cuts at: that of ASCII, symbols included, and
// that of an old Unicode.
bool IsPunctuation(char32_t code);

// What normal forms leave alone: neither taken apart nor put together with a
// neighbour, nor put in order with marks around it.
bool IsUnnormalized(char32_t code);

// `text` for a search with patterns: characters whose category PCRE2 may not
// know, or know another one of than the library does, are replaced by others of
// the library's category and as many bytes. Nothing if there are none.
// REQUIRES: `text` is UTF-8.
std::optional<std::string> WithStandIns(absl::string_view text);

// Unicode's normal forms (UAX #15).
struct NormalForm {
  bool composed = true;     // NFC and NFKC rather than NFD and NFKD
  bool compatible = false;  // NFKC and NFKD
};

// How long a text can get in that form. The worst are U+0390, which is
// decomposed to 3 times its bytes, and U+FDFA, 11 times.
inline Growth GrowthOf(NormalForm form) {
  return {.factor = form.compatible ? 11.0 : 3.0};
}

// `text` in that form, in time O(n log n) whatever its marks.
// REQUIRES: `text` is UTF-8.
std::string ToNormalForm(absl::string_view text, NormalForm form);

// The same, with `literal` marks of the text's bytes as MarkedText has them,
// not empty, which become those of the result: a character is literal if one is
// that it was made of.
std::string ToNormalForm(absl::string_view text, NormalForm form,
                         std::string& literal);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_UNICODE_H_
