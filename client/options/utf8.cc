#include "client/options/utf8.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace steadystate::client {
namespace {

// The length of the UTF-8 character at the start of `text`, 0 if there is none.
size_t CharacterLength(absl::string_view text) {
  const auto at = [text](size_t i) -> unsigned {
    return static_cast<unsigned char>(text[i]);
  };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Forms that are too long, surrogates, and what lies above U+10FFFF.
  const bool forbidden =
      (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) >= 0xA0) ||
      (lead == 0xF0 && at(1) < 0x90) || (lead == 0xF4 && at(1) >= 0x90);
  return forbidden ? 0 : length;
}

}  // namespace

absl::Status CheckUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text.substr(i));
    if (length == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "text must be UTF-8; the byte at offset ", i, " is not"));
    }
    i += length;
  }
  return absl::OkStatus();
}

}  // namespace steadystate::client
