#ifndef STEADYSTATE_SERVER_TEXT_TEXT_STREAM_H_
#define STEADYSTATE_SERVER_TEXT_TEXT_STREAM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace steadystate {

// What stands for bytes that belong to no character: U+FFFD.
inline constexpr absl::string_view kReplacement = "\xEF\xBF\xBD";

// Turns the bytes of generated tokens into text that is safe to show: whole
// UTF-8 characters only, and nothing that may yet turn out to be a stop string.
// Bytes that can belong to no character become U+FFFD, as in WHATWG decoding.
// Thread-compatible. Memory: the longest stop string plus a character.
class TextStream {
 public:
  // `stop_strings` are non-empty. `carry` holds the first bytes of a character
  // that an earlier stream left unfinished (see unfinished()); of other bytes
  // only such an end counts.
  TextStream(std::vector<std::string> stop_strings, absl::string_view carry);

  // Adds a token's bytes; returns the text that became safe. After a stop
  // string was found: the text before its first occurrence, once, then nothing.
  std::string Append(absl::string_view bytes);

  // True once a stop string has been completed. The earliest ending one wins;
  // of those that end together the longest.
  bool stopped() const { return stopped_; }

  // Ends the stream without a stop string: returns held-back text. An
  // unfinished character stays in unfinished().
  std::string Flush();

  // The first bytes (at most 3) of a character that has not been completed.
  const std::string& unfinished() const { return unfinished_; }

 private:
  std::vector<std::string> stop_strings_;
  std::string held_;        // text that may begin a stop string
  std::string unfinished_;  // bytes of an incomplete character
  bool stopped_ = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_TEXT_STREAM_H_
