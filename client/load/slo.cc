#include "client/load/slo.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace steadystate::client {
namespace {

struct Part {
  absl::string_view name;
  std::optional<absl::Duration> Slo::*limit;
};
constexpr std::array<Part, 3> kParts = {{{"ttft", &Slo::time_to_first_token},
                                         {"tpot", &Slo::time_per_output_token},
                                         {"e2e", &Slo::request}}};

absl::Status ReadPart(absl::string_view text, Slo& slo) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  for (const Part& part : kParts) {
    if (part.name != words.first) continue;
    absl::Duration limit;
    if (!absl::ParseDuration(words.second, &limit) ||
        limit <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", words.second, "' of ", part.name,
                       " is not a duration above 0 such as 200ms"));
    }
    if (slo.*part.limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.name, " is given twice"));
    }
    slo.*part.limit = limit;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text,
                   "' is not ttft:, tpot: or e2e: and a duration, "
                   "as in ttft:200ms,tpot:20ms"));
}

bool Within(std::chrono::nanoseconds time,
            const std::optional<absl::Duration>& limit) {
  return !limit || absl::FromChrono(time) <= *limit;
}

}  // namespace

bool Slo::Meets(const RequestTimes& times) const {
  return Within(times.first_token, time_to_first_token) &&
         Within(times.per_output_token, time_per_output_token) &&
         Within(times.whole, request);
}

absl::StatusOr<Slo> ParseSlo(absl::string_view text) {
  Slo slo;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::Status read = ReadPart(part, slo);
    if (!read.ok()) return read;
  }
  return slo;
}

std::string ToString(const Slo& slo) {
  std::vector<std::string> parts;
  for (const Part& part : kParts) {
    const auto& limit = slo.*part.limit;
    if (limit) {
      parts.push_back(
          absl::StrCat(part.name, ":", absl::FormatDuration(*limit)));
    }
  }
  return absl::StrJoin(parts, ",");
}

}  // namespace steadystate::client
