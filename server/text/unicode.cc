#include "server/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "server/text/marked_text.h"
#include "server/text/text_stream.h"

namespace steadystate {
namespace {

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

std::string ToUtf8(absl::string_view text) {
  TextStream stream({}, "");
  std::string utf8 = stream.Append(text);
  utf8 += stream.Flush();
  if (!stream.unfinished().empty()) {
    utf8.append(kReplacement.data(), kReplacement.size());
  }
  return utf8;
}

Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0x7Fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  return {code, bytes};
}

Character LastCharacter(absl::string_view text) {
  size_t start = text.size() - 1;
  while (IsContinuation(text[start])) --start;
  return FirstCharacter(text.substr(start));
}

void AppendUtf8(char32_t code, std::string& to) {
  if (code < 0x80) {
    to.push_back(static_cast<char>(code));
    return;
  }
  const int trailing = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  // 110..., 1110... or 11110...
  const unsigned marker = 0xFF00u >> (trailing + 1) & 0xFFu;
  to.push_back(static_cast<char>(marker | code >> (6 * trailing)));
  for (int i = trailing - 1; i >= 0; --i) {
    to.push_back(static_cast<char>(0x80u | (code >> (6 * i) & 0x3Fu)));
  }
}

bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool IsBlank(absl::string_view text) {
  constexpr char32_t kSpaceMark = 0x2581;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (!IsWhiteSpace(character.code) && character.code != kSpaceMark) {
      return false;
    }
    text.remove_prefix(character.bytes);
  }
  return true;
}

namespace {

// Bytes that do not stand for themselves are written as these characters.
constexpr char32_t kFirstMoved = 0x100;
constexpr size_t kMovedBytes = 68;

constexpr bool StandsForItself(size_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::array<char, kMovedBytes> byte_of_moved{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  size_t moved = 0;
  for (size_t byte = 0; byte < 256; ++byte) {
    if (StandsForItself(byte)) {
      alphabet.of_byte[byte] = static_cast<char32_t>(byte);
    } else {
      alphabet.of_byte[byte] = static_cast<char32_t>(kFirstMoved + moved);
      alphabet.byte_of_moved[moved++] = static_cast<char>(byte);
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

std::optional<char> ByteOf(char32_t code) {
  if (code < kFirstMoved) {
    if (!StandsForItself(code)) return std::nullopt;
    return static_cast<char>(code);
  }
  if (code >= kFirstMoved + kMovedBytes) return std::nullopt;
  return kAlphabet.byte_of_moved[code - kFirstMoved];
}

}  // namespace

std::string ToByteAlphabet(absl::string_view text) {
  std::string mapped;
  mapped.reserve(text.size() * 2);
  for (const char byte : text) {
    AppendUtf8(kAlphabet.of_byte[static_cast<unsigned char>(byte)], mapped);
  }
  return mapped;
}

void AppendFromByteAlphabet(absl::string_view token, std::string& to) {
  const size_t before = to.size();
  for (absl::string_view rest = token; !rest.empty();) {
    const Character character = FirstCharacter(rest);
    const std::optional<char> byte = ByteOf(character.code);
    if (!byte.has_value()) {
      to.resize(before);
      to.append(token.data(), token.size());
      return;
    }
    to.push_back(*byte);
    rest.remove_prefix(character.bytes);
  }
}

namespace {

// Code points, both included. Tables are sorted.
struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// The same, and what stands for each of them.
struct StandInRange {
  uint32_t first;
  uint32_t last;
  uint32_t stand_in;
};

#include "server/text/unicode_tables.inc"

// The range of a table that has a code point, or null.
template <typename Range, size_t kSize>
const Range* Find(const Range (&table)[kSize], char32_t code) {
  const Range* const after = std::upper_bound(
      std::begin(table), std::end(table), code,
      [](char32_t value, const Range& range) { return value < range.first; });
  if (after == std::begin(table)) return nullptr;
  return code <= std::prev(after)->last ? std::prev(after) : nullptr;
}

// The first byte of three and more: what stands in the table is not shorter,
// but for a few that are unassigned.
bool MayHaveStandIn(char byte) {
  return static_cast<unsigned char>(byte) >= 0xC0;
}

}  // namespace

bool IsWordCharacter(char32_t code) {
  return Find(kWordCharacters, code) != nullptr;
}

bool IsNumber(char32_t code) { return Find(kNumbers, code) != nullptr; }

bool IsPunctuation(char32_t code) {
  return Find(kPunctuation, code) != nullptr;
}

bool IsUnnormalized(char32_t code) {
  return code >= kUnnormalized[0].first && Find(kUnnormalized, code) != nullptr;
}

std::optional<std::string> WithStandIns(absl::string_view text) {
  std::optional<std::string> changed;
  for (size_t at = 0; at < text.size();) {
    if (!MayHaveStandIn(text[at])) {
      ++at;
      continue;
    }
    const Character character = FirstCharacter(text.substr(at));
    const StandInRange* const range = Find(kStandIns, character.code);
    if (range != nullptr) {
      if (!changed.has_value()) changed.emplace(text);
      std::string stand_in;
      AppendUtf8(range->stand_in, stand_in);
      changed->replace(at, character.bytes, stand_in);
    }
    at += character.bytes;
  }
  return changed;
}

namespace {

// The longest decomposition of one character is 18 code points (U+FDFA).
constexpr size_t kLongestDecomposition = 32;

// Text without characters that any normal form changes, most text in most
// languages of Latin script.
bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c & 0x80) == 0; });
}

utf8proc_propval_t CombiningClass(utf8proc_int32_t code) {
  return utf8proc_get_property(code)->combining_class;
}

// Each code point has the mark of its character, if `literal` has marks.
std::vector<utf8proc_int32_t> Decompose(absl::string_view text, bool compatible,
                                        absl::string_view literal,
                                        std::string& marks) {
  const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  std::vector<utf8proc_int32_t> codes;
  codes.reserve(text.size());
  utf8proc_int32_t parts[kLongestDecomposition];
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    text.remove_prefix(character.bytes);
    const auto code = static_cast<utf8proc_int32_t>(character.code);
    int boundary_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        code, parts, kLongestDecomposition,
        static_cast<utf8proc_option_t>(options), &boundary_class);
    if (count < 1 || static_cast<size_t>(count) > kLongestDecomposition) {
      codes.push_back(code);
    } else {
      codes.insert(codes.end(), parts, parts + count);
    }
    if (literal.empty()) continue;
    const bool is_literal = HasLiteral(literal.substr(0, character.bytes));
    marks.resize(codes.size(), is_literal ? kLiteral : kNotLiteral);
    literal.remove_prefix(character.bytes);
  }
  return codes;
}

// Sorts each run of marks by class, with what literal marks they have.
// utf8proc_decompose would do so by exchanging neighbours, which takes minutes
// for a megabyte of marks.
void Order(std::vector<utf8proc_int32_t>& codes, std::string& literal) {
  const auto is_mark = [](utf8proc_int32_t code) {
    return CombiningClass(code) != 0;
  };
  std::vector<std::pair<utf8proc_int32_t, char>> sorted;
  for (auto run = codes.begin(); run != codes.end();) {
    run = std::find_if(run, codes.end(), is_mark);
    const auto end = std::find_if_not(run, codes.end(), is_mark);
    const auto at = static_cast<size_t>(run - codes.begin());
    sorted.clear();
    for (auto code = run; code != end; ++code) {
      const size_t index = at + sorted.size();
      sorted.emplace_back(*code,
                          literal.empty() ? kNotLiteral : literal[index]);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) {
                       return CombiningClass(a.first) < CombiningClass(b.first);
                     });
    for (size_t i = 0; i < sorted.size(); ++i) {
      codes[at + i] = sorted[i].first;
      if (!literal.empty()) literal[at + i] = sorted[i].second;
    }
    run = end;
  }
}

// How many code points a character is taken apart to.
size_t PartsOf(utf8proc_int32_t code) {
  utf8proc_int32_t parts[kLongestDecomposition];
  int boundary_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      code, parts, kLongestDecomposition, UTF8PROC_DECOMPOSE, &boundary_class);
  return count < 1 ? 1 : static_cast<size_t>(count);
}

// The marks of `composed`, which was put together from as many code points as
// `marks` has. Up to the next character that is no mark all comes from one
// stretch, though not in order: where two became one it has one mark.
std::string MarksOfComposed(const std::vector<utf8proc_int32_t>& composed,
                            absl::string_view marks) {
  std::string result;
  size_t taken = 0;
  for (size_t begin = 0; begin < composed.size();) {
    size_t end = begin;
    size_t parts = 0;
    do {
      parts += PartsOf(composed[end++]);
    } while (end < composed.size() && CombiningClass(composed[end]) != 0);
    const absl::string_view stretch =
        marks.substr(std::min(taken, marks.size()), parts);
    taken += parts;
    if (stretch.size() == end - begin) {
      result.append(stretch.data(), stretch.size());
    } else {
      const bool literal = HasLiteral(stretch);
      result.append(end - begin, literal ? kLiteral : kNotLiteral);
    }
    begin = end;
  }
  return result;
}

void Compose(std::vector<utf8proc_int32_t>& codes) {
  const utf8proc_ssize_t size = utf8proc_normalize_utf32(
      codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
      static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  codes.resize(static_cast<size_t>(size));
}

// Text that is put into a normal form, and its marks if it has any.
struct Normal {
  std::string text;
  std::string marks;
};

void AppendCodes(const std::vector<utf8proc_int32_t>& codes,
                 absl::string_view marks, Normal& to) {
  for (size_t i = 0; i < codes.size(); ++i) {
    AppendUtf8(static_cast<char32_t>(codes[i]), to.text);
    if (!marks.empty()) {
      to.marks.append(to.text.size() - to.marks.size(), marks[i]);
    }
  }
}

// U+11A7, a vowel and no trailing consonant: with those its number is the one
// that stands for none. utf8proc takes it for that and drops it behind a
// syllable. Nothing is put together with it, so it may be left alone, too.
constexpr char32_t kBeforeTrailing = 0x11A7;

// Of a text without characters that are left alone.
void AppendNormalForm(absl::string_view text, absl::string_view literal,
                      NormalForm form, Normal& to) {
  if (text.empty()) return;
  std::string marks;
  std::vector<utf8proc_int32_t> codes =
      Decompose(text, form.compatible, literal, marks);
  Order(codes, marks);
  if (form.composed) {
    const bool marked = !marks.empty();
    Compose(codes);
    if (marked) marks = MarksOfComposed(codes, marks);
  }
  AppendCodes(codes, marks, to);
}

}  // namespace

std::string ToNormalForm(absl::string_view text, NormalForm form) {
  std::string unmarked;
  return ToNormalForm(text, form, unmarked);
}

std::string ToNormalForm(absl::string_view text, NormalForm form,
                         std::string& literal) {
  if (IsAscii(text)) return std::string(text);
  const absl::string_view marks = literal;
  const auto marks_of = [marks](size_t begin, size_t end) {
    return marks.empty() ? marks : marks.substr(begin, end - begin);
  };
  Normal normal;
  normal.text.reserve(text.size());
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = FirstCharacter(text.substr(at));
    const size_t end = at + character.bytes;
    if (IsUnnormalized(character.code) || character.code == kBeforeTrailing) {
      AppendNormalForm(text.substr(done, at - done), marks_of(done, at), form,
                       normal);
      AppendUtf8(character.code, normal.text);
      const absl::string_view its = marks_of(at, end);
      normal.marks.append(its.data(), its.size());
      done = end;
    }
    at = end;
  }
  AppendNormalForm(text.substr(done), marks_of(done, text.size()), form,
                   normal);
  literal = std::move(normal.marks);
  return std::move(normal.text);
}

}  // namespace steadystate
