#include "server/text/sentencepiece_marks.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/status_macros.h"
#include "server/text/sentencepiece_file.h"
#include "server/text/unicode.h"

namespace steadystate {
namespace {

constexpr absl::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

// Of ModelProto.
constexpr uint32_t kPiecesField = 1;
constexpr uint32_t kSelfTests = 4;
// Of its SentencePiece.
constexpr uint32_t kPieceField = 1;
constexpr uint32_t kTypeField = 3;
enum PieceType : uint64_t { kNormal = 1, kControl = 3, kUserDefined = 4 };
// Of SentencePieceText, and of its SentencePiece.
constexpr uint32_t kResults = 2;
constexpr uint32_t kResultId = 2;
constexpr uint32_t kResultBegin = 4;
constexpr uint32_t kResultEnd = 5;

struct Piece {
  absl::string_view text;
  uint64_t type = kNormal;
};

absl::StatusOr<Piece> ReadPiece(absl::string_view message) {
  Piece piece;
  const absl::Status read =
      ForEachProtoField(message, [&](const ProtoField& field) {
        if (field.number == kPieceField && field.type == ProtoField::kBytes) {
          piece.text = field.bytes;
        }
        if (field.number == kTypeField && field.type == ProtoField::kVarint) {
          piece.type = field.varint;
        }
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  return piece;
}

bool IsMarkPiece(const Piece& piece) {
  return (piece.type == kControl || piece.type == kUserDefined) &&
         !IsBlank(ToUtf8(piece.text));
}

// Four bytes, since the library takes a first byte of 0xFF for that of a
// character of four; no two begin each other.
std::string AliasOf(size_t id) {
  constexpr size_t kDigits = 127;
  std::string alias = "\xFF";
  for (int digit = 0; digit < 3; ++digit) {
    alias.push_back(static_cast<char>(0x80 + id % kDigits));
    id /= kDigits;
  }
  return alias;
}

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) {
    to.push_back(static_cast<char>(value | 0x80));
  }
  to.push_back(static_cast<char>(value));
}

void AppendBytesField(uint32_t number, absl::string_view bytes,
                      std::string& to) {
  AppendVarint(uint64_t{number} << 3 | ProtoField::kBytes, to);
  AppendVarint(bytes.size(), to);
  to.append(bytes.data(), bytes.size());
}

// Calls `visit` with each piece's message, what it says, and its id.
template <typename Visit>
absl::Status ForEachPiece(absl::string_view bytes, const Visit& visit) {
  size_t id = 0;
  return ForEachProtoField(bytes, [&](const ProtoField& field) -> absl::Status {
    if (field.number != kPiecesField || field.type != ProtoField::kBytes) {
      return absl::OkStatus();
    }
    STEADYSTATE_ASSIGN_OR_RETURN(const Piece piece, ReadPiece(field.bytes));
    visit(field.bytes, piece, id++);
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<SentencePieceMarks> SentencePieceMarks::FromFile(
    absl::string_view bytes) {
  SentencePieceMarks marks;
  std::vector<PrefixTable::Entry> user_defined;
  STEADYSTATE_RETURN_IF_ERROR(ForEachPiece(
      bytes, [&](absl::string_view, const Piece& piece, size_t id) {
        if (!IsMarkPiece(piece)) return;
        const auto token = static_cast<int32_t>(id);
        marks.spelled_[token] = std::string(piece.text);
        if (piece.type == kUserDefined) {
          user_defined.push_back({std::string(piece.text), token});
        }
      }));
  marks.user_defined_ = PrefixTable(std::move(user_defined));
  return marks;
}

absl::StatusOr<std::string> SentencePieceMarks::SecondFile(
    absl::string_view bytes) {
  // A field that comes again holds: pieces of the same file, in order, behind
  // what is not pieces. Self-tests are of the first model's spellings.
  std::string file;
  STEADYSTATE_RETURN_IF_ERROR(
      ForEachProtoField(bytes, [&](const ProtoField& field) {
        if (field.type == ProtoField::kBytes && field.number != kPiecesField &&
            field.number != kSelfTests) {
          AppendBytesField(field.number, field.bytes, file);
        }
        return absl::OkStatus();
      }));
  STEADYSTATE_RETURN_IF_ERROR(ForEachPiece(
      bytes, [&](absl::string_view message, const Piece& piece, size_t id) {
        std::string changed(message);
        if (IsMarkPiece(piece)) {
          AppendBytesField(kPieceField, AliasOf(id), changed);
        }
        AppendBytesField(kPiecesField, changed, file);
      }));
  return file;
}

absl::StatusOr<std::vector<SentencePieceMarks::Found>> SentencePieceMarks::Read(
    absl::string_view result, std::vector<int32_t>& tokens) const {
  std::vector<Found> found;
  const auto read_piece = [&](absl::string_view message) {
    Found piece = {};
    const absl::Status read =
        ForEachProtoField(message, [&](const ProtoField& field) {
          if (field.type != ProtoField::kVarint) return absl::OkStatus();
          const auto value = static_cast<size_t>(field.varint);
          if (field.number == kResultId) {
            piece.token = static_cast<int32_t>(value);
          }
          if (field.number == kResultBegin) piece.begin = value;
          if (field.number == kResultEnd) piece.end = value;
          return absl::OkStatus();
        });
    tokens.push_back(piece.token);
    if (IsMark(piece.token)) found.push_back(piece);
    return read;
  };
  STEADYSTATE_RETURN_IF_ERROR(
      ForEachProtoField(result, [&](const ProtoField& field) {
        return field.number == kResults && field.type == ProtoField::kBytes
                   ? read_piece(field.bytes)
                   : absl::OkStatus();
      }));
  return found;
}

// The library tells the bytes of which a piece was made, but of a character
// that the normalizer makes several of, and of which a piece has but the first,
// that it ends before. So unless the bytes spell the piece, one more character
// is taken to be in it.
bool SentencePieceMarks::IsLiteral(const MarkedText& text,
                                   const Found& found) const {
  const absl::string_view bytes = text.text;
  const absl::string_view spelled = spelled_.at(found.token);
  const std::string surface = absl::StrReplaceAll(
      bytes.substr(found.begin, found.end - found.begin), {{" ", kSpaceMark}});
  size_t end = found.end;
  const bool exact =
      surface == spelled || absl::StrCat(kSpaceMark, surface) == spelled;
  if (!exact || surface.empty()) {
    // Past its other bytes, which a piece that is no UTF-8 may end before.
    do {
      ++end;
    } while (end < bytes.size() && (bytes[end] & 0xC0) == 0x80);
  }
  return HasLiteral(
      absl::string_view(text.literal).substr(found.begin, end - found.begin));
}

std::vector<SentencePieceMarks::Found> SentencePieceMarks::FindHidden(
    const MarkedText& text, const Found& behind,
    const std::vector<Found>& seen) const {
  const absl::string_view bytes = text.text;
  std::vector<Found> hidden;
  for (size_t at = behind.begin; at < behind.end;) {
    const size_t literal =
        std::min(text.literal.find(kLiteral, at), bytes.size());
    const PrefixTable::Match match =
        user_defined_.Longest(bytes.substr(at, literal - at));
    const auto next = std::ranges::upper_bound(seen, at, {}, &Found::begin);
    const bool covered =
        (next != seen.end() && next->begin < at + match.bytes) ||
        (next != seen.begin() && at < std::prev(next)->end);
    if (match.bytes == 0 || covered) {
      ++at;
      continue;
    }
    hidden.push_back({match.token, at, at + match.bytes});
    at += match.bytes;
  }
  return hidden;
}

bool SentencePieceMarks::Alias(MarkedText& text,
                               std::vector<Found>& found) const {
  std::vector<Found> kept;
  std::vector<Found> literal;
  for (const Found& one : found) {
    (IsLiteral(text, one) ? literal : kept).push_back(one);
  }
  if (literal.empty()) return false;
  found = kept;
  size_t end = 0;  // of what was hidden so far
  for (const Found& one : literal) {
    for (const Found& hidden : FindHidden(text, one, kept)) {
      if (hidden.begin < end) continue;
      found.push_back(hidden);
      end = hidden.end;
    }
  }
  std::ranges::sort(found, {}, &Found::begin);
  std::string aliased;
  size_t done = 0;
  for (const Found& one : found) {
    aliased += text.text.substr(done, one.begin - done);
    aliased += AliasOf(static_cast<size_t>(one.token));
    done = one.end;
  }
  aliased += text.text.substr(done);
  text = {.text = std::move(aliased), .literal = ""};
  return true;
}

}  // namespace steadystate
