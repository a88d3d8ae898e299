#include "server/text/splitting.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"
#include "server/text/utf8.h"

namespace steadystate {
namespace {

// One stretch from the start of `a` to the end of `b`, its neighbour.
absl::string_view Joined(absl::string_view a, absl::string_view b) {
  return {a.data(), a.size() + b.size()};
}

// As the reference library does, a match is merged only if the stretch beside
// it is no match: of two matches in a row one stands alone.
std::vector<absl::string_view> MergeBackward(
    const std::vector<Stretch>& stretches) {
  std::vector<absl::string_view> parts;
  bool previous = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.matched && !previous && !parts.empty()) {
      parts.back() = Joined(parts.back(), stretch.text);
    } else {
      parts.push_back(stretch.text);
    }
    previous = stretch.matched;
  }
  return parts;
}

std::vector<absl::string_view> MergeForward(
    const std::vector<Stretch>& stretches) {
  std::vector<absl::string_view> parts;
  bool next = false;
  for (size_t i = stretches.size(); i-- > 0;) {
    const Stretch& stretch = stretches[i];
    if (stretch.matched && !next && !parts.empty()) {
      parts.back() = Joined(stretch.text, parts.back());
    } else {
      parts.push_back(stretch.text);
    }
    next = stretch.matched;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<absl::string_view> MergeAlike(
    const std::vector<Stretch>& stretches) {
  std::vector<absl::string_view> parts;
  bool previous = false;
  for (const Stretch& stretch : stretches) {
    if (stretch.matched == previous && !parts.empty()) {
      parts.back() = Joined(parts.back(), stretch.text);
    } else {
      parts.push_back(stretch.text);
    }
    previous = stretch.matched;
  }
  return parts;
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
  std::vector<absl::string_view> parts;
  for (const Stretch& stretch : stretches) {
    if (stretch.matched && behavior == SplitBehavior::kRemoved) continue;
    parts.push_back(stretch.text);
  }
  return parts;
}

}  // namespace steadystate
