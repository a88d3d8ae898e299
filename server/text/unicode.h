#ifndef STEADYSTATE_SERVER_TEXT_UNICODE_H_
#define STEADYSTATE_SERVER_TEXT_UNICODE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace steadystate {

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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_UNICODE_H_
