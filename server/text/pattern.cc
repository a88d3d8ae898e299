#include "server/text/pattern.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"

namespace steadystate {

absl::StatusOr<std::shared_ptr<const Regex>> PatternOf(
    const nlohmann::json& step) {
  const nlohmann::json& pattern = MemberOrNull(step, "pattern");
  const bool literal = !MemberOrNull(pattern, "String").is_null();
  STEADYSTATE_ASSIGN_OR_RETURN(
      const std::string text,
      StringMember(pattern, literal ? "String" : "Regex"));
  if (text.empty()) return absl::InvalidArgumentError("'pattern' is empty");
  STEADYSTATE_ASSIGN_OR_RETURN(
      Regex regex, literal ? Regex::OfLiteral(text) : Regex::Compile(text));
  return std::make_shared<const Regex>(std::move(regex));
}

absl::StatusOr<std::string> ReplaceAll(const Regex& pattern,
                                       absl::string_view content,
                                       absl::string_view text) {
  STEADYSTATE_ASSIGN_OR_RETURN(
      MarkedText replaced,
      ReplaceAll(pattern, content, MarkedText{std::string(text), ""}));
  return std::move(replaced.text);
}

absl::StatusOr<MarkedText> ReplaceAll(const Regex& pattern,
                                      absl::string_view content,
                                      const MarkedText& marked) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Stretch> stretches,
                               pattern.Cut(marked.text));
  MarkedText replaced;
  replaced.text.reserve(marked.text.size());
  absl::string_view marks = marked.literal;
  for (const Stretch& stretch : stretches) {
    const absl::string_view piece = stretch.matched ? content : stretch.text;
    replaced.text.append(piece.data(), piece.size());
    if (marks.empty()) continue;
    const absl::string_view its = marks.substr(0, stretch.text.size());
    marks.remove_prefix(its.size());
    if (stretch.matched) {
      replaced.literal.append(piece.size(),
                              HasLiteral(its) ? kLiteral : kNotLiteral);
    } else {
      replaced.literal.append(its.data(), its.size());
    }
  }
  return replaced;
}

Growth GrowthOfReplacing(const Regex& pattern, absl::string_view content) {
  const auto bytes = static_cast<double>(content.size());
  // Before each character, and at the end.
  if (pattern.least_match() == 0) return {.factor = 1 + bytes, .added = bytes};
  const double factor = bytes / static_cast<double>(pattern.least_match());
  return {.factor = std::max(factor, 1.0)};
}

namespace {

// One stretch from the start of `a` to the end of `b`, its neighbour.
absl::string_view Joined(absl::string_view a, absl::string_view b) {
  return {a.data(), a.size() + b.size()};
}

// As the reference library does, a match is merged only if the stretch beside
// it is no match: of two matches in a row one stands alone.
std::vector<absl::string_view> MergeBackward(
    const std::vector<Stretch>& stretches) {
  std::vector<absl::string_view> words;
  bool previous = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.matched && !previous && !words.empty()) {
      words.back() = Joined(words.back(), stretch.text);
    } else {
      words.push_back(stretch.text);
    }
    previous = stretch.matched;
  }
  return words;
}

std::vector<absl::string_view> MergeForward(
    const std::vector<Stretch>& stretches) {
  std::vector<absl::string_view> words;
  bool next = false;
  for (size_t i = stretches.size(); i-- > 0;) {
    const Stretch& stretch = stretches[i];
    if (stretch.matched && !next && !words.empty()) {
      words.back() = Joined(stretch.text, words.back());
    } else {
      words.push_back(stretch.text);
    }
    next = stretch.matched;
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<absl::string_view> MergeAlike(
    const std::vector<Stretch>& stretches) {
  std::vector<absl::string_view> words;
  bool previous = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.matched == previous && !words.empty()) {
      words.back() = Joined(words.back(), stretch.text);
    } else {
      words.push_back(stretch.text);
    }
    previous = stretch.matched;
  }
  return words;
}

}  // namespace

std::vector<Stretch> CutAt(bool (*is_match)(char32_t), absl::string_view text) {
  std::vector<Stretch> stretches;
  size_t cut = 0;  // up to here `text` is in stretches
  for (size_t at = 0; at < text.size();) {
    const Character character = FirstCharacter(text.substr(at));
    if (is_match(character.code)) {
      if (cut < at) stretches.push_back({text.substr(cut, at - cut), false});
      stretches.push_back({text.substr(at, character.bytes), true});
      cut = at + character.bytes;
    }
    at += character.bytes;
  }
  if (cut < text.size()) stretches.push_back({text.substr(cut), false});
  return stretches;
}

absl::StatusOr<SplitBehavior> BehaviorOf(const nlohmann::json& step,
                                         absl::string_view fallback) {
  STEADYSTATE_ASSIGN_OR_RETURN(const std::string behavior,
                               StringMember(step, "behavior", fallback));
  if (behavior == "Removed") return SplitBehavior::kRemoved;
  if (behavior == "Isolated") return SplitBehavior::kIsolated;
  if (behavior == "MergedWithPrevious") {
    return SplitBehavior::kMergedWithPrevious;
  }
  if (behavior == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (behavior == "Contiguous") return SplitBehavior::kContiguous;
  return absl::InvalidArgumentError(
      absl::StrCat("'behavior' is \"", behavior.substr(0, 80),
                   "\", which is none of a split"));
}

std::vector<absl::string_view> Split(const std::vector<Stretch>& stretches,
                                     SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kMergedWithPrevious:
      return MergeBackward(stretches);
    case SplitBehavior::kMergedWithNext:
      return MergeForward(stretches);
    case SplitBehavior::kContiguous:
      return MergeAlike(stretches);
    case SplitBehavior::kRemoved:
    case SplitBehavior::kIsolated:
      break;
  }
  std::vector<absl::string_view> words;
  for (const Stretch& stretch : stretches) {
    if (stretch.matched && behavior == SplitBehavior::kRemoved) continue;
    words.push_back(stretch.text);
  }
  return words;
}

}  // namespace steadystate
