#ifndef STEADYSTATE_CLIENT_JINJA_TEXT_H_
#define STEADYSTATE_CLIENT_JINJA_TEXT_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace steadystate::jinja {

// Who has written a byte of a text.
using Author = char;
inline constexpr Author kTemplate = 0;

// A string of a template, UTF-8, that knows who has written which byte of it,
// whatever is done with it. Comparisons do not ask for that.
struct Text {
  Text() = default;
  explicit Text(std::string text, Author author = kTemplate)
      : bytes(std::move(text)), authors(bytes.size(), author) {}

  std::string bytes;
  std::string authors;  // one of each byte

  void Append(const Text& other);
  // True if the template has written all of it.
  bool OfTemplate() const;
  Text Part(size_t begin, size_t end) const;
};

// As Python's str.strip, of `chars` or, if there are none, of what Unicode has
// for blanks.
enum class Side { kBoth, kLeft, kRight };
Text Strip(const Text& text, Side side, absl::string_view chars = "");

// As Python's str.replace.
Text Replace(const Text& text, absl::string_view from, const Text& to);

// As Python's str.split with a separator.
// REQUIRES: separator is not empty.
std::vector<Text> Split(const Text& text, absl::string_view separator);

// A text of each character.
std::vector<Text> Characters(const Text& text);

}  // namespace steadystate::jinja

#endif  // STEADYSTATE_CLIENT_JINJA_TEXT_H_
