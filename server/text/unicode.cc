#include "server/text/unicode.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "server/text/utf8.h"

namespace steadystate {
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

}  // namespace steadystate
