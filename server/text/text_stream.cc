#include "server/text/text_stream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"

namespace steadystate {
namespace {

// Bytes of the character that `lead` begins, or 0 if no character begins so.
size_t CharacterBytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// True if `byte` can follow `begun`, the first bytes of a character. The second
// byte excludes overlong forms, surrogates and what is beyond U+10FFFF.
bool CanFollow(absl::string_view begun, unsigned char byte) {
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (begun.size() == 1) {
    switch (static_cast<unsigned char>(begun[0])) {
      case 0xE0:
        low = 0xA0;
        break;
      case 0xED:
        high = 0x9F;
        break;
      case 0xF0:
        low = 0x90;
        break;
      case 0xF4:
        high = 0x8F;
        break;
      default:
        break;
    }
  }
  return byte >= low && byte <= high;
}

// Appends the characters that `bytes` complete to `text`; what is begun and not
// complete is left in `begun`.
void Decode(absl::string_view bytes, std::string& begun, std::string& text) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!begun.empty() && !CanFollow(begun, byte)) {
      text.append(kReplacement.data(), kReplacement.size());
      begun.clear();
    }
    if (begun.empty() && CharacterBytes(byte) == 0) {
      text.append(kReplacement.data(), kReplacement.size());
      continue;
    }
    begun.push_back(c);
    if (begun.size() == CharacterBytes(static_cast<unsigned char>(begun[0]))) {
      text += begun;
      begun.clear();
    }
  }
}

// Length of the longest end of `text` with which a stop string begins.
size_t HeldBytes(absl::string_view text,
                 const std::vector<std::string>& stop_strings) {
  size_t held = 0;
  for (const std::string& stop : stop_strings) {
    for (size_t size = std::min(stop.size() - 1, text.size()); size > held;
         --size) {
      if (absl::EndsWith(text, absl::string_view(stop).substr(0, size))) {
        held = size;
      }
    }
  }
  return held;
}

}  // namespace

TextStream::TextStream(std::vector<std::string> stop_strings,
                       absl::string_view carry)
    : stop_strings_(std::move(stop_strings)) {
  // What is no beginning of a character is dropped: a carry may come from
  // outside, with a snapshot.
  std::string whole;
  Decode(carry, unfinished_, whole);
}

std::string TextStream::Append(absl::string_view bytes) {
  if (stopped_) return "";
  std::string text = std::exchange(held_, "");
  const size_t seen = text.size();
  Decode(bytes, unfinished_, text);
  for (size_t end = seen + 1; end <= text.size(); ++end) {
    const absl::string_view before(text.data(), end);
    size_t longest = 0;
    for (const std::string& stop : stop_strings_) {
      if (absl::EndsWith(before, stop))
        longest = std::max(longest, stop.size());
    }
    if (longest > 0) {
      stopped_ = true;
      return text.substr(0, end - longest);
    }
  }
  const size_t safe = text.size() - HeldBytes(text, stop_strings_);
  held_ = text.substr(safe);
  text.resize(safe);
  return text;
}

std::string TextStream::Flush() { return std::exchange(held_, ""); }

}  // namespace steadystate
