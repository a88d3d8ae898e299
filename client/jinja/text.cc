#include "client/jinja/text.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"

namespace steadystate::jinja {
namespace {

// What str.isspace() is true of, beside ASCII.
constexpr std::array<absl::string_view, 19> kBlanks = {
    "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80",
    "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84",
    "\xe2\x80\x85", "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88",
    "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8", "\xe2\x80\xa9",
    "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};

bool Continues(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// Where the character that begins at `begin` ends.
size_t EndOf(absl::string_view bytes, size_t begin) {
  size_t end = begin + 1;
  while (end < bytes.size() && Continues(bytes[end])) ++end;
  return end;
}

bool IsStripped(absl::string_view character, absl::string_view chars) {
  if (!chars.empty()) return absl::StrContains(chars, character);
  if (character.size() == 1) {
    const char c = character[0];
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
  }
  return std::find(kBlanks.begin(), kBlanks.end(), character) != kBlanks.end();
}

}  // namespace

void Text::Append(const Text& other) {
  bytes += other.bytes;
  authors += other.authors;
}

bool Text::OfTemplate() const {
  return authors.find_first_not_of(kTemplate) == std::string::npos;
}

Text Text::Part(size_t begin, size_t end) const {
  Text part;
  part.bytes = bytes.substr(begin, end - begin);
  part.authors = authors.substr(begin, end - begin);
  return part;
}

Text Strip(const Text& text, Side side, absl::string_view chars) {
  const absl::string_view bytes = text.bytes;
  size_t begin = 0;
  size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const size_t next = EndOf(bytes, begin);
    if (!IsStripped(bytes.substr(begin, next - begin), chars)) break;
    begin = next;
  }
  while (side != Side::kLeft && begin < end) {
    size_t last = end - 1;
    while (last > begin && Continues(bytes[last])) --last;
    if (!IsStripped(bytes.substr(last, end - last), chars)) break;
    end = last;
  }
  return text.Part(begin, end);
}

std::vector<Text> Split(const Text& text, absl::string_view separator) {
  std::vector<Text> parts;
  size_t begin = 0;
  for (size_t found = text.bytes.find(separator.data(), 0, separator.size());
       found != std::string::npos;
       found = text.bytes.find(separator.data(), begin, separator.size())) {
    parts.push_back(text.Part(begin, found));
    begin = found + separator.size();
  }
  parts.push_back(text.Part(begin, text.bytes.size()));
  return parts;
}

Text Replace(const Text& text, absl::string_view from, const Text& to) {
  Text replaced;
  bool first = true;
  for (const Text& part : Split(text, from)) {
    if (!first) replaced.Append(to);
    first = false;
    replaced.Append(part);
  }
  return replaced;
}

std::vector<Text> Characters(const Text& text) {
  std::vector<Text> characters;
  for (size_t begin = 0; begin < text.bytes.size();) {
    const size_t end = EndOf(text.bytes, begin);
    characters.push_back(text.Part(begin, end));
    begin = end;
  }
  return characters;
}

}  // namespace steadystate::jinja
