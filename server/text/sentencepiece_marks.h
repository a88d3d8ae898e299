#ifndef STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_MARKS_H_
#define STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_MARKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/marked_text.h"
#include "server/text/prefix_table.h"

namespace steadystate {

// The marks of a tokenizer.model: user defined symbols and control symbols, but
// for those of blanks, which are text. SentencePiece finds the first in any
// text, and has no way to be told where not to.
//
// So there is a second model, in which each mark is spelled by an alias that is
// no UTF-8 and hence in no text. Where SentencePiece has found marks in literal
// bytes of a text, the others are written as their aliases, and the second
// model reads the whole: it knows no other spelling of them. Immutable;
// thread-safe.
class SentencePieceMarks {
 public:
  // One that was found in a text, from byte `begin` to before `end`.
  struct Found {
    int32_t token;
    size_t begin;
    size_t end;
  };

  SentencePieceMarks() = default;

  // Of the bytes of a file, which CheckSentencePieceFile has let pass.
  static absl::StatusOr<SentencePieceMarks> FromFile(absl::string_view bytes);

  // The file of the second model. Its pieces have the ids of the first.
  static absl::StatusOr<std::string> SecondFile(absl::string_view bytes);

  bool IsMark(int32_t token) const { return spelled_.contains(token); }

  // The marks of a result, a serialized SentencePieceText, and in `tokens` the
  // ids of all. INVALID_ARGUMENT if it is none.
  absl::StatusOr<std::vector<Found>> Read(absl::string_view result,
                                          std::vector<int32_t>& tokens) const;

  // The text with aliases for the marks of `found` that no literal byte has a
  // part in, and for those that lay hidden behind one of the others: the
  // former are left in `found`. False, and nothing is changed, if that is all
  // of them. REQUIRES: `text` has marks; `found` is what Read gave.
  bool Alias(MarkedText& text, std::vector<Found>& found) const;

 private:
  bool IsLiteral(const MarkedText& text, const Found& found) const;
  // What begins in the bytes of `behind`, is not literal and not in the way of
  // what was `seen`, which is in order.
  std::vector<Found> FindHidden(const MarkedText& text, const Found& behind,
                                const std::vector<Found>& seen) const;

  absl::flat_hash_map<int32_t, std::string> spelled_;  // by id
  PrefixTable user_defined_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SENTENCEPIECE_MARKS_H_
