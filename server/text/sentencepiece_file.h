#ifndef STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_FILE_H_
#define STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace steadystate {

// One field of a message in Protobuf's wire format.
struct ProtoField {
  enum Type : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint32_t number;
  Type type;
  uint64_t varint;          // if the type is kVarint
  absl::string_view bytes;  // of all others
};

// Calls `visit` with the fields of a message, in order, until it fails; returns
// its error. INVALID_ARGUMENT for what is not well-formed and for groups, which
// no message of this project's has. For files of which a library makes more
// than the caller wants: what is well-formed here is so for Protobuf, with the
// same values.
absl::Status ForEachProtoField(
    absl::string_view message,
    const std::function<absl::Status(const ProtoField&)>& visit);

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

// Checks the bytes of a tokenizer.model, a message ModelProto, for what
// SentencePiece itself does not check and would be harmed by.
//
// INVALID_ARGUMENT for what is no message; for more than `vocab_size` pieces;
// for a piece that is empty, has a NUL or is longer than 1024 bytes; for more
// than 64 user defined pieces that begin each other; for a charsmap that
// CheckCharsMap refuses; for a text for unknown tokens of more than 1024 bytes,
// and for more than 1 MiB of options and self-tests.
absl::Status CheckSentencePieceFile(absl::string_view bytes, size_t vocab_size);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_FILE_H_
