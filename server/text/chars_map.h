#ifndef STEADYSTATE_SERVER_TEXT_CHARS_MAP_H_
#define STEADYSTATE_SERVER_TEXT_CHARS_MAP_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// Checks a "precompiled_charsmap" of a tokenizer.model: the rules by which
// SentencePiece replaces strings in a text before it looks for tokens. They are
// the size of a trie, the trie, which is a double array of Darts-clone, and the
// replacements, each with a NUL behind it. SentencePiece follows the trie from
// unit to unit without a look at its size, and keeps what it finds in an array
// of 32. Empty: no rules.
//
// INVALID_ARGUMENT unless every unit that any text can reach lies in the trie,
// every value in the replacements, no path goes in a circle or has more than 32
// rules on it, and no replacement is longer than 16 times what it replaces.
absl::Status CheckCharsMap(absl::string_view map);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_CHARS_MAP_H_
