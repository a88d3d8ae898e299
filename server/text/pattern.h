#ifndef STEADYSTATE_SERVER_TEXT_PATTERN_H_
#define STEADYSTATE_SERVER_TEXT_PATTERN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "server/text/growth.h"
#include "server/text/regex.h"

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

// How long ReplaceAll can make a text.
Growth GrowthOfReplacing(const Regex& pattern, absl::string_view content);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_TEXT_PATTERN_H_
