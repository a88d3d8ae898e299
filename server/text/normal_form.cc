#include "server/text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace steadystate {
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

std::vector<utf8proc_int32_t> Decompose(absl::string_view text,
                                        bool compatible) {
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
  }
  return codes;
}

// Sorts each run of marks by class. utf8proc_decompose would do so by
// exchanging neighbours, which takes minutes for a megabyte of marks.
void Order(std::vector<utf8proc_int32_t>& codes) {
  const auto is_mark = [](utf8proc_int32_t code) {
    return CombiningClass(code) != 0;
  };
  for (auto run = codes.begin(); run != codes.end();) {
    run = std::find_if(run, codes.end(), is_mark);
    const auto end = std::find_if_not(run, codes.end(), is_mark);
    std::stable_sort(run, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    run = end;
  }
}

// Of a text without characters that are left alone.
void AppendNormalForm(absl::string_view text, NormalForm form,
                      std::string& to) {
  if (text.empty()) return;
  std::vector<utf8proc_int32_t> codes = Decompose(text, form.compatible);
  Order(codes);
  if (form.composed) {
    const utf8proc_ssize_t size = utf8proc_normalize_utf32(
        codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    codes.resize(static_cast<size_t>(size));
  }
  for (const utf8proc_int32_t code : codes) {
    AppendUtf8(static_cast<char32_t>(code), to);
  }
}

}  // namespace

std::string ToNormalForm(absl::string_view text, NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  std::string normal;
  normal.reserve(text.size());
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const Character character = FirstCharacter(text.substr(at));
    if (IsUnnormalized(character.code)) {
      AppendNormalForm(text.substr(done, at - done), form, normal);
      AppendUtf8(character.code, normal);
      done = at + character.bytes;
    }
    at += character.bytes;
  }
  AppendNormalForm(text.substr(done), form, normal);
  return normal;
}

}  // namespace steadystate
