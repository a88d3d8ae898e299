#include "client/cli/load_compare.h"

#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/load_figures.h"
#include "client/cli/load_report.h"
#include "client/options/help.h"
#include "client/options/options.h"

namespace steadystate::client {
namespace {

using Pointer = Json::json_pointer;
using Verdict = ComparedFigure::Verdict;

// Histograms are exact to that.
constexpr double kExactness = 0.01;

struct Source {
  const char* name;
  const char* path;
  bool more_is_better;
  bool seconds;
};
constexpr std::array<Source, 13> kSources = {
    {{"tokens_per_second", "/tokens_per_second", true, false},
     {"prompt_tokens_per_second", "/prompt_tokens_per_second", true, false},
     {"requests_per_second", "/requests_per_second", true, false},
     {"time_to_first_token_p50", "/latency_seconds/time_to_first_token/p50",
      false, true},
     {"time_to_first_token_p99", "/latency_seconds/time_to_first_token/p99",
      false, true},
     {"time_per_output_token_p50", "/latency_seconds/time_per_output_token/p50",
      false, true},
     {"time_per_output_token_p99", "/latency_seconds/time_per_output_token/p99",
      false, true},
     {"inter_token_p50", "/latency_seconds/inter_token/p50", false, true},
     {"inter_token_p99", "/latency_seconds/inter_token/p99", false, true},
     {"request_p99", "/latency_seconds/request/p99", false, true},
     {"goodput", "/goodput/requests_per_second", true, false},
     {"slo_attainment", "/goodput/attainment", true, false},
     {"server_cpus", "/server/cpus", false, false}}};

// What has to be the same, and what a report of before the option means.
struct Setting {
  const char* path;
  Json initial;
};
const std::vector<Setting>& Settings() {
  static const auto* const settings =
      new std::vector<Setting>{{"/options/rpc", {}},
                               {"/options/loop", {}},
                               {"/options/sessions", {}},
                               {"/options/streams", {}},
                               {"/options/connections", 1},
                               {"/options/prompt_tokens", {}},
                               {"/options/prompt_lengths", {}},
                               {"/options/prompts", 0},
                               {"/mean_prompt_tokens", {}},
                               {"/options/generate_tokens", {}},
                               {"/options/generate_lengths", {}},
                               {"/options/rate", {}},
                               {"/options/arrival_process", {}},
                               {"/options/stages", ""},
                               {"/options/trace_arrivals", 0},
                               {"/options/slo", ""},
                               {"/options/durability", "ephemeral"}};
  return *settings;
}

// What may differ, and is worth saying.
constexpr std::array<const char*, 10> kNotable = {
    "/model/name",   "/model/fingerprint",      "/model/weight_dtype",
    "/model/isa",    "/model/threads",          "/processors",
    "/options/seed", "/options/warmup_seconds", "/options/duration_seconds",
    "/interrupted"};

// Nothing if there is no such member, whatever the report is.
const Json* Find(const Json& report, const char* path) {
  const Pointer pointer{std::string(path)};
  if (!report.contains(pointer)) return nullptr;
  const Json& found = report.at(pointer);
  return found.is_null() ? nullptr : &found;
}

Json ValueAt(const Json& report, const char* path, const Json& initial = {}) {
  const Json* const found = Find(report, path);
  return found == nullptr ? initial : *found;
}

// A value for people, whatever it is and however long.
std::string Shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  return text.size() <= 60 ? text : absl::StrCat(text.substr(0, 57), "...");
}

// The report of one run or of several, read.
struct Report {
  std::string schema;
  std::string variable;
  Json first;                                  // a run that has the settings
  std::map<double, std::vector<Json>> points;  // runs by value
};

absl::Status NoReport(const char* name, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is no report of steadystate load --json: ", why));
}

absl::Status CheckRun(const char* name, const Json& run) {
  if (ValueAt(run, "/schema") != kLoadReportSchema ||
      !ValueAt(run, "/valid").is_boolean() ||
      !ValueAt(run, "/options").is_object() ||
      !ValueAt(run, "/tokens_per_second").is_number()) {
    return NoReport(name, "a run of it has no schema, validity or figures");
  }
  return absl::OkStatus();
}

absl::Status ReadPoint(const char* name, const Json& point, Report& report) {
  const Json value = ValueAt(point, "/value");
  const Json runs = ValueAt(point, "/runs");
  if (!value.is_number() || !runs.is_array() || runs.empty()) {
    return NoReport(name, "a point of it has no value or no runs");
  }
  for (const Json& run : runs) {
    const absl::Status checked = CheckRun(name, run);
    if (!checked.ok()) return checked;
    report.points[value.get<double>()].push_back(run);
  }
  return absl::OkStatus();
}

absl::StatusOr<Report> ReadReport(const char* name, absl::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return NoReport(name, "it is not a JSON object");
  Report report;
  const Json schema = ValueAt(json, "/schema");
  report.schema = schema.is_string() ? schema.get<std::string>() : "";
  if (report.schema == kLoadReportSchema) {
    const absl::Status checked = CheckRun(name, json);
    if (!checked.ok()) return checked;
    report.points[0].push_back(json);
  } else if (report.schema == kLoadSweepSchema) {
    const Json points = ValueAt(json, "/points");
    const Json variable = ValueAt(json, "/variable");
    if (!points.is_array() || points.empty() || !variable.is_string()) {
      return NoReport(name, "it has no points or no variable");
    }
    report.variable = variable.get<std::string>();
    for (const Json& point : points) {
      const absl::Status read = ReadPoint(name, point, report);
      if (!read.ok()) return read;
    }
  } else {
    return NoReport(name, absl::StrCat("its schema is ", Shown(schema)));
  }
  report.first = report.points.begin()->second[0];
  return report;
}

// The sweep's own variable differs from point to point, and sessions take
// streams with them.
bool IsVariable(const Report& report, absl::string_view path) {
  if (report.variable.empty()) return false;
  return path == absl::StrCat("/options/", report.variable) ||
         (report.variable == "sessions" &&
          (path == "/options/streams" || path == "/options/connections"));
}

// Which runs it is about, for people.
std::string Kind(const Report& report) {
  if (report.schema == kLoadReportSchema) return "a report of one run";
  if (report.variable.empty()) return "one of repeated runs (--repeat)";
  return absl::StrCat("one of a sweep over ", report.variable);
}

absl::Status CheckSameLoad(const Report& a, const Report& b) {
  if (a.schema != b.schema || a.variable != b.variable) {
    return absl::FailedPreconditionError(
        absl::StrCat("A is ", Kind(a), " and B is ", Kind(b),
                     "; only like can be compared: make both with the same "
                     "--sweep and --repeat, or without"));
  }
  std::vector<std::string> differences;
  for (const Setting& setting : Settings()) {
    if (IsVariable(a, setting.path)) continue;
    const Json of_a = ValueAt(a.first, setting.path, setting.initial);
    const Json of_b = ValueAt(b.first, setting.path, setting.initial);
    // Reports of before have no such member, but others that say the same.
    const bool unknown =
        setting.initial.is_null() && (of_a.is_null() || of_b.is_null());
    if (of_a == of_b || unknown) continue;
    const absl::string_view name = setting.path;
    differences.push_back(absl::StrCat(name.substr(name.rfind('/') + 1), " ",
                                       Shown(of_a), " and ", Shown(of_b)));
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the loads differ, so the figures do not compare: ",
                   absl::StrJoin(differences, "; ")));
}

std::string Objection(const std::vector<Json>& runs) {
  for (const Json& run : runs) {
    if (run.at("valid") == true) continue;
    const Json objection = ValueAt(run, "/objections/0");
    return objection.is_string() ? objection.get<std::string>() : "INVALID";
  }
  return "";
}

Estimate EstimateOf(const std::vector<Json>& runs, const char* path) {
  std::vector<double> values;
  for (const Json& run : runs) {
    const Json value = ValueAt(run, path);
    if (value.is_number()) values.push_back(value.get<double>());
  }
  return EstimateMean(values);
}

Verdict VerdictOn(const ComparedFigure& figure, bool more_is_better) {
  const double difference = figure.b.mean - figure.a.mean;
  const auto noise = DifferenceHalfWidth(figure.a, figure.b);
  if (std::fabs(difference) <= std::fabs(figure.a.mean) * kExactness) {
    return Verdict::kSame;
  }
  if (noise && std::fabs(difference) <= *noise) return Verdict::kUncertain;
  return (difference > 0) == more_is_better ? Verdict::kBetter
                                            : Verdict::kWorse;
}

ComparedPoint ComparePoint(const std::vector<Json>& a,
                           const std::vector<Json>& b) {
  ComparedPoint point;
  for (const Source& source : kSources) {
    ComparedFigure figure;
    figure.name = source.name;
    figure.seconds = source.seconds;
    figure.a = EstimateOf(a, source.path);
    figure.b = EstimateOf(b, source.path);
    if (figure.a.count == 0 || figure.b.count == 0) continue;
    figure.verdict = VerdictOn(figure, source.more_is_better);
    point.figures.push_back(std::move(figure));
  }
  return point;
}

std::vector<std::string> Notes(const Report& a, const Report& b) {
  std::vector<std::string> notes;
  for (const char* path : kNotable) {
    const Json of_a = ValueAt(a.first, path);
    const Json of_b = ValueAt(b.first, path);
    if (of_a == of_b) continue;
    notes.push_back(absl::StrCat(absl::string_view(path).substr(1), " is ",
                                 Shown(of_a), " in A and ", Shown(of_b),
                                 " in B"));
  }
  const size_t runs = std::min(a.points.begin()->second.size(),
                               b.points.begin()->second.size());
  if (runs < 2) {
    notes.emplace_back(
        "one run each: how much of a difference is chance is not known; "
        "--repeat tells");
  }
  return notes;
}

// Compares the values that both have, and says which were left out.
absl::Status ComparePoints(const Report& a, const Report& b,
                           LoadComparison& comparison) {
  std::string objection;
  for (const auto& [value, runs] : a.points) {
    const auto other = b.points.find(value);
    if (other == b.points.end()) continue;
    const std::string of_a = Objection(runs);
    const std::string invalid = of_a.empty() ? Objection(other->second) : of_a;
    if (!invalid.empty()) {
      objection = absl::StrCat(
          of_a.empty() ? "B" : "A",
          a.variable.empty() ? ""
                             : absl::StrFormat(" at %s %g", a.variable, value),
          " is INVALID: ", invalid);
      comparison.notes.push_back(objection + "; left out");
      continue;
    }
    ComparedPoint point = ComparePoint(runs, other->second);
    if (!a.variable.empty()) point.value = value;
    comparison.points.push_back(std::move(point));
  }
  if (!comparison.points.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      objection.empty() ? absl::StrCat("A and B have no ", a.variable,
                                       " in common; give both the same values")
                        : objection);
}

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kBetter:
      return "better";
    case Verdict::kWorse:
      return "worse";
    case Verdict::kUncertain:
      return "uncertain";
    case Verdict::kSame:
      break;
  }
  return "same";
}

std::string ValueText(const ComparedFigure& figure, const Estimate& estimate) {
  const std::string mean = figure.seconds
                               ? FormatLatency(std::chrono::nanoseconds(
                                     std::llround(estimate.mean * 1e9)))
                               : absl::StrFormat("%.4g", estimate.mean);
  if (!estimate.half_width || estimate.mean == 0) return mean;
  // As a share, which stays narrow whatever the unit.
  return absl::StrFormat("%s +-%.0f %%", mean,
                         100 * *estimate.half_width / estimate.mean);
}

std::optional<double> Ratio(const ComparedFigure& figure) {
  if (figure.a.mean == 0) return std::nullopt;
  return figure.b.mean / figure.a.mean;
}

}  // namespace

absl::StatusOr<LoadComparison> CompareReports(absl::string_view a,
                                              absl::string_view b) {
  const auto of_a = ReadReport("A", a);
  if (!of_a.ok()) return of_a.status();
  const auto of_b = ReadReport("B", b);
  if (!of_b.ok()) return of_b.status();
  const absl::Status same = CheckSameLoad(*of_a, *of_b);
  if (!same.ok()) return same;
  LoadComparison comparison;
  comparison.variable = of_a->variable;
  comparison.notes = Notes(*of_a, *of_b);
  const absl::Status compared = ComparePoints(*of_a, *of_b, comparison);
  if (!compared.ok()) return compared;
  return comparison;
}

std::string FormatComparisonText(const LoadComparison& comparison) {
  std::string text =
      absl::StrFormat("%-26s%17s%17s%9s  %s\n", "", "A", "B", "B/A", "B is");
  for (const ComparedPoint& point : comparison.points) {
    if (point.value) {
      absl::StrAppendFormat(&text, "\n%s %g\n", comparison.variable,
                            *point.value);
    }
    for (const ComparedFigure& figure : point.figures) {
      const auto ratio = Ratio(figure);
      absl::StrAppendFormat(
          &text, "%-26s%17s%17s%9s  %s\n", figure.name,
          ValueText(figure, figure.a), ValueText(figure, figure.b),
          ratio ? absl::StrFormat("%.3f", *ratio) : std::string("-"),
          VerdictName(figure.verdict));
    }
  }
  if (!comparison.notes.empty()) text += '\n';
  for (const std::string& note : comparison.notes) {
    absl::StrAppendFormat(&text, "%-12s%s", "note",
                          Wrap(note, kIndent).substr(kIndent));
  }
  return text;
}

Json FormatComparisonJson(const LoadComparison& comparison) {
  const auto estimate_json = [](const Estimate& estimate) {
    return Json{{"mean", estimate.mean},
                {"half_width_95",
                 estimate.half_width ? Json(*estimate.half_width) : Json()},
                {"runs", estimate.count}};
  };
  Json points = Json::array();
  for (const ComparedPoint& point : comparison.points) {
    Json figures = Json::object();
    for (const ComparedFigure& figure : point.figures) {
      const auto ratio = Ratio(figure);
      figures[figure.name] = {{"a", estimate_json(figure.a)},
                              {"b", estimate_json(figure.b)},
                              {"ratio", ratio ? Json(*ratio) : Json()},
                              {"b_is", VerdictName(figure.verdict)}};
    }
    points.push_back({{"value", point.value ? Json(*point.value) : Json()},
                      {"figures", std::move(figures)}});
  }
  return {{"schema", "steadystate.load_comparison/1"},
          {"variable", comparison.variable},
          {"points", std::move(points)},
          {"notes", comparison.notes}};
}

}  // namespace steadystate::client
