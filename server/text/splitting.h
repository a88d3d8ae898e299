#ifndef STEADYSTATE_SERVER_TEXT_SPLITTING_H_
#define STEADYSTATE_SERVER_TEXT_SPLITTING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/regex.h"

namespace steadystate {

// What becomes of a match where text is split: the "behavior" of a Split.
enum class SplitBehavior {
  kRemoved,             // it is left out
  kIsolated,            // a part of its own
  kMergedWithPrevious,  // the end of the part before, unless that is a match
  kMergedWithNext,      // the start of the part after, unless that is a match
  kContiguous,          // one part with the matches beside it
};

// Cuts a text at characters: each that `is_match` says is a match by itself.
// The parts point into `text`. REQUIRES: `text` is UTF-8.
std::vector<Stretch> CutAt(bool (*is_match)(char32_t), absl::string_view text);

// The member "behavior" of `step`, by default `fallback`.
absl::StatusOr<SplitBehavior> BehaviorOf(const nlohmann::json& step,
                                         absl::string_view fallback);

// The parts of a text. `stretches` are its matches and what lies between, in
// order, without gaps; the parts point where they point.
std::vector<absl::string_view> Split(const std::vector<Stretch>& stretches,
                                     SplitBehavior behavior);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_SPLITTING_H_
