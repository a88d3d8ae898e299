#include "server/text/pattern.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "server/base/status_macros.h"
#include "server/text/json_fields.h"

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
  STEADYSTATE_ASSIGN_OR_RETURN(const std::vector<Stretch> stretches,
                               pattern.Cut(text));
  std::string replaced;
  replaced.reserve(text.size());
  for (const Stretch& stretch : stretches) {
    const absl::string_view part = stretch.matched ? content : stretch.text;
    replaced.append(part.data(), part.size());
  }
  return replaced;
}

Growth GrowthOfReplacing(const Regex& pattern, absl::string_view content) {
  const double factor = static_cast<double>(content.size()) /
                        static_cast<double>(pattern.least_match());
  return {.factor = std::max(factor, 1.0)};
}

}  // namespace steadystate
