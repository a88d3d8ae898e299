#ifndef STEADYSTATE_SERVER_TEXT_PATTERN_H_
#define STEADYSTATE_SERVER_TEXT_PATTERN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/marked_text.h"
#include "server/text/regex.h"
#include "server/text/unicode.h"

namespace steadystate {

// The member "pattern" of `step`: {"String": text} or {"Regex": pattern}.
// INVALID_ARGUMENT if it is neither or is empty; otherwise errors as Regex.
absl::StatusOr<std::shared_ptr<const Regex>> PatternOf(
    const nlohmann::json& step);

// The "Replace" of normalizers and decoders: `content` for every match of
// `pattern`. Errors as Regex::Cut. REQUIRES: `text` is UTF-8.
absl::StatusOr<std::string> ReplaceAll(const Regex& pattern,
                                       absl::string_view content,
                                       absl::string_view text);

// The same of a text with marks: what stands for a match is literal if one of
// its bytes is.
absl::StatusOr<MarkedText> ReplaceAll(const Regex& pattern,
                                      absl::string_view content,
                                      const MarkedText& marked);

// How long ReplaceAll can make a text.
Growth GrowthOfReplacing(const Regex& pattern, absl::string_view content);

// What becomes of a match where text is split: the "behavior" of a Split.
enum class SplitBehavior {
  kRemoved,             // the match is left out
  kIsolated,            // a word of its own
  kMergedWithPrevious,  // the end of the word before, unless that is a match
  kMergedWithNext,      // the start of the word after, unless that is a match
  kContiguous,          // one word with the matches beside it
};

// Cuts a text at characters: each that `is_match` says is a match by itself.
// The stretches point into `text`. REQUIRES: `text` is UTF-8.
std::vector<Stretch> CutAt(bool (*is_match)(char32_t), absl::string_view text);

// The member "behavior" of `step`, by default `fallback`.
absl::StatusOr<SplitBehavior> BehaviorOf(const nlohmann::json& step,
                                         absl::string_view fallback);

// The words of a text. `stretches` are its matches and what lies between, in
// order, without gaps; the words point into the same text.
std::vector<absl::string_view> Split(const std::vector<Stretch>& stretches,
                                     SplitBehavior behavior);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_PATTERN_H_
