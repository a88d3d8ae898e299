#include "client/load/sweep.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace steadystate::client {
namespace {

constexpr size_t kMaxValues = 32;

// Of what a closed loop came to, in requests per second: nearer to each other
// where the knee may be.
constexpr std::array<double, 8> kRateShares = {0.2,  0.4, 0.6, 0.75,
                                               0.85, 0.9, 1.0, 1.1};
// Automatic sessions double for as long as throughput grows by that.
constexpr double kGrowth = 1.05;
// Of the highest throughput.
constexpr double kNearlyAll = 0.95;

double QuantileSeconds(const Histogram& histogram, double quantile) {
  return std::chrono::duration<double>(histogram.Quantile(quantile)).count();
}

// To three digits, as people would give it.
double Rounded(double value) {
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return std::round(value / unit) * unit;
}

double Throughput(const SweepPoint& point) {
  std::vector<double> values;
  for (const LoadResult& run : point.runs) {
    values.push_back(TokensPerSecond(run));
  }
  return EstimateMean(values).mean;
}

bool AllSessionsMade(const SweepPoint& point) {
  return std::all_of(point.runs.begin(), point.runs.end(),
                     [](const LoadResult& run) {
                       return run.sessions_created == run.options.sessions;
                     });
}

bool MustEnd(const LoadResult& run) {
  return run.interrupted || run.going_away || run.sessions_created == 0;
}

// The options of the runs of a value.
LoadOptions OptionsAt(const LoadOptions& options, const SweepSpec& spec,
                      double value) {
  LoadOptions at = options;
  if (spec.variable == SweepVariable::kRate) at.rate = value;
  if (spec.variable != SweepVariable::kSessions) return at;
  at.sessions = static_cast<uint64_t>(value);
  at.streams = std::min(at.streams, at.sessions);
  at.connections = std::min(at.connections, at.calls());
  return at;
}

std::optional<double> NextRate(const SweepResult& result) {
  const double capacity =
      result.calibration ? RequestsPerSecond(*result.calibration) : 0;
  const size_t next = result.points.size();
  if (!(capacity > 0) || next == kRateShares.size()) return std::nullopt;
  return Rounded(capacity * kRateShares[next]);
}

std::optional<double> NextSessions(const SweepResult& result) {
  if (result.points.empty()) return 1;
  const SweepPoint& last = result.points.back();
  const double next = last.value * 2;
  if (next > static_cast<double>(kMostAutomaticSessions) ||
      !AllSessionsMade(last))
    return std::nullopt;
  if (!result.options.slo.empty()) {
    return Holds(last) ? std::optional(next) : std::nullopt;
  }
  double best = 0;
  for (size_t i = 0; i + 1 < result.points.size(); ++i) {
    best = std::max(best, Throughput(result.points[i]));
  }
  return Throughput(last) >= best * kGrowth ? std::optional(next)
                                            : std::nullopt;
}

// A run that says how many requests per second there may be.
absl::Status Calibrate(const LoadFunction& run, SweepResult& result) {
  LoadOptions options = result.options;
  options.rate = 0;
  options.arrivals = ArrivalProcess::kPoisson;
  auto calibration = run(options);
  if (!calibration.ok()) return calibration.status();
  result.interrupted = calibration->interrupted;
  result.calibration = *std::move(calibration);
  return absl::OkStatus();
}

// False if the sweep is to end.
absl::StatusOr<bool> RunPoint(double value, const LoadFunction& run,
                              SweepResult& result) {
  SweepPoint point{value, {}};
  LoadOptions options = OptionsAt(result.options, result.spec, value);
  bool goes_on = true;
  for (uint64_t i = 0; i < result.repeat && goes_on; ++i) {
    auto one = run(options);
    if (!one.ok()) return one.status();
    ++options.seed;
    goes_on = !MustEnd(*one);
    result.interrupted = result.interrupted || one->interrupted;
    point.runs.push_back(*std::move(one));
  }
  result.points.push_back(std::move(point));
  return goes_on;
}

std::optional<double> ValueAt(const SweepResult& result) {
  const size_t next = result.points.size();
  const SweepSpec& spec = result.spec;
  if (spec.variable == SweepVariable::kNothing) {
    return next == 0 ? std::optional(0.0) : std::nullopt;
  }
  if (spec.values.empty()) return NextValue(result);
  return next < spec.values.size() ? std::optional(spec.values[next])
                                   : std::nullopt;
}

bool IsWhole(double value) { return value == std::floor(value); }

}  // namespace

const char* VariableName(SweepVariable variable) {
  switch (variable) {
    case SweepVariable::kRate:
      return "rate";
    case SweepVariable::kSessions:
      return "sessions";
    case SweepVariable::kNothing:
      break;
  }
  return "";
}

absl::StatusOr<SweepSpec> ParseSweep(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  SweepSpec spec;
  for (const auto variable : {SweepVariable::kRate, SweepVariable::kSessions}) {
    if (words.first == VariableName(variable)) spec.variable = variable;
  }
  if (spec.variable == SweepVariable::kNothing || words.second.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is neither rate:R1,R2,... nor sessions:N1,N2,... nor "
                     "rate:auto nor sessions:auto"));
  }
  if (words.second == "auto") return spec;
  for (const absl::string_view part : absl::StrSplit(words.second, ',')) {
    double value = 0;
    const bool read = absl::SimpleAtod(part, &value) && value > 0 &&
                      std::isfinite(value) &&
                      (spec.variable == SweepVariable::kRate || IsWhole(value));
    if (!read || (!spec.values.empty() && value <= spec.values.back())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", part, "' of '", text, "' must be a ",
          spec.variable == SweepVariable::kRate ? "number" : "whole number",
          " above 0 and above the one before"));
    }
    if (spec.values.size() == kMaxValues) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxValues, " values"));
    }
    spec.values.push_back(value);
  }
  return spec;
}

std::vector<Figure> Figures(const LoadOptions& options) {
  std::vector<Figure> figures = {
      {"tokens_per_second", "generated tokens/s", true, false, TokensPerSecond},
      {"requests_per_second", "requests/s", true, false, RequestsPerSecond},
      {"time_to_first_token_p50", "time to first token p50", false, true,
       [](const LoadResult& result) {
         return QuantileSeconds(result.tally.time_to_first_token, 0.5);
       }},
      {"time_to_first_token_p99", "time to first token p99", false, true,
       [](const LoadResult& result) {
         return QuantileSeconds(result.tally.time_to_first_token, 0.99);
       }},
      {"time_per_output_token_p50", "time per output token p50", false, true,
       [](const LoadResult& result) {
         return QuantileSeconds(result.tally.time_per_output_token, 0.5);
       }},
      {"time_per_output_token_p99", "time per output token p99", false, true,
       [](const LoadResult& result) {
         return QuantileSeconds(result.tally.time_per_output_token, 0.99);
       }},
      {"request_p99", "whole request p99", false, true,
       [](const LoadResult& result) {
         return QuantileSeconds(result.tally.request, 0.99);
       }}};
  if (options.slo.empty()) return figures;
  figures.push_back({"goodput", "good requests/s", true, false, Goodput});
  figures.push_back(
      {"slo_attainment", "share of good requests", true, false, SloAttainment});
  return figures;
}

Estimate EstimateOf(const SweepPoint& point, const Figure& figure) {
  std::vector<double> values;
  for (const LoadResult& run : point.runs) values.push_back(figure.of(run));
  return EstimateMean(values);
}

bool Holds(const SweepPoint& point) {
  return std::all_of(point.runs.begin(), point.runs.end(),
                     [](const LoadResult& run) {
                       return run.tally.completed > 0 &&
                              Objections(run).empty() && MeetsSlo(run);
                     });
}

std::string KneeRule(const SweepResult& result) {
  if (!result.options.slo.empty()) {
    return absl::StrCat(
        "the highest value at which every run was valid and met ",
        ToString(result.options.slo));
  }
  if (result.spec.variable == SweepVariable::kRate) {
    return "the highest rate at which every run was valid";
  }
  return "the fewest sessions with 95 % of the highest throughput";
}

std::string DescribeKnee(const SweepResult& result) {
  if (!result.knee) {
    return absl::StrCat("none; it would be ", KneeRule(result));
  }
  std::string text =
      absl::StrCat(VariableName(result.spec.variable), " ",
                   result.points[*result.knee].value, ": ", KneeRule(result));
  std::vector<std::string> below;
  for (size_t i = 0; i < *result.knee; ++i) {
    if (!Holds(result.points[i])) {
      below.push_back(absl::StrCat(result.points[i].value));
    }
  }
  if (!below.empty()) {
    absl::StrAppend(&text, "; below it ", absl::StrJoin(below, ", "),
                    " did not hold, so the machine is not quiet or the runs "
                    "are too short: try --repeat and a longer --duration");
  }
  return text;
}

std::optional<size_t> FindKnee(const SweepResult& result) {
  if (result.spec.variable == SweepVariable::kNothing) return std::nullopt;
  const bool first = result.spec.variable == SweepVariable::kSessions &&
                     result.options.slo.empty();
  double highest = 0;
  for (const SweepPoint& point : result.points) {
    highest = std::max(highest, Throughput(point));
  }
  std::optional<size_t> knee;
  for (size_t i = 0; i < result.points.size(); ++i) {
    const SweepPoint& point = result.points[i];
    if (!Holds(point)) continue;
    if (!first) knee = i;
    if (first && Throughput(point) >= highest * kNearlyAll) return i;
  }
  return knee;
}

std::optional<double> NextValue(const SweepResult& result) {
  switch (result.spec.variable) {
    case SweepVariable::kRate:
      return NextRate(result);
    case SweepVariable::kSessions:
      return NextSessions(result);
    case SweepVariable::kNothing:
      break;
  }
  return std::nullopt;
}

absl::StatusOr<SweepResult> RunSweep(const LoadOptions& options,
                                     const SweepSpec& spec, uint64_t repeat,
                                     const LoadFunction& run) {
  SweepResult result;
  result.options = options;
  result.spec = spec;
  result.repeat = repeat;
  if (spec.variable == SweepVariable::kRate && spec.values.empty()) {
    const absl::Status calibrated = Calibrate(run, result);
    if (!calibrated.ok()) return calibrated;
    if (MustEnd(*result.calibration)) return result;
  }
  while (const std::optional<double> value = ValueAt(result)) {
    const auto goes_on = RunPoint(*value, run, result);
    if (!goes_on.ok()) return goes_on.status();
    result.complete = *goes_on;
    if (!*goes_on) break;
  }
  result.knee = FindKnee(result);
  return result;
}

}  // namespace steadystate::client
