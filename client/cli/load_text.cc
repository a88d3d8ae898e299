#include "client/cli/load_text.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cli/load_figures.h"
#include "client/options/help.h"
#include "client/options/options.h"

namespace steadystate::client {
namespace {

// A section of the text: its name, then lines that stand below each other.
void AppendSection(std::string& text, absl::string_view name,
                   const std::vector<std::string>& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppendFormat(&text, "%-12s%s\n", i == 0 ? name : "", lines[i]);
  }
}

// The same for sentences, which are wrapped.
void AppendSentences(std::string& text, absl::string_view name,
                     const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) {
    const std::string wrapped = Wrap(sentence, kIndent);
    absl::StrAppendFormat(&text, "%-12s%s", name, wrapped.substr(kIndent));
  }
}

void AppendModel(std::string& text, const v1::Model& model) {
  AppendSection(
      text, "model",
      {absl::StrFormat("%s: %s, %s weights, %s, %d threads",
                       absl::StripPrefix(model.name(), "models/"),
                       model.family(), FormatCount(model.parameter_count()),
                       model.weight_dtype(), model.execution().threads())});
}

void AppendSettings(std::string& text, const LoadResult& result) {
  const LoadOptions& options = result.options;
  AppendModel(text, result.model);
  AppendSentences(text, "load", {DescribeSessions(options)});
  AppendSentences(text, "", {DescribeRequests(result)});
  AppendSentences(
      text, "",
      {absl::StrCat(DescribeLoop(options),
                    options.open_loop()
                        ? "; latency counts from the intended send time"
                        : "",
                    "; seed ", options.seed)});
  AppendSection(text, "measured",
                {absl::StrFormat("%.1f s after %.1f s of warm-up%s",
                                 absl::ToDoubleSeconds(result.window),
                                 absl::ToDoubleSeconds(options.warmup),
                                 result.interrupted ? ", interrupted" : "")});
}

void AppendRates(std::string& text, const LoadResult& result) {
  const std::string offered =
      result.options.open_loop()
          ? absl::StrFormat("  (%s arrived)", FormatCount(result.arrivals))
          : "";
  AppendSection(
      text, "throughput",
      {absl::StrFormat("%12.1f generated tokens/s", TokensPerSecond(result)),
       absl::StrFormat("%12.1f prompt tokens/s", PromptTokensPerSecond(result)),
       absl::StrFormat("%12.1f requests/s%s", RequestsPerSecond(result),
                       offered)});
  if (result.options.slo.empty()) return;
  AppendSection(text, "goodput",
                {absl::StrFormat("%12.1f good requests/s", Goodput(result))});
  AppendSentences(text, "", {DescribeSlo(result)});
}

void AppendLatencies(std::string& text, const LoadResult& result) {
  if (result.tally.time_to_first_token.count() == 0 &&
      result.tally.inter_token.count() == 0) {
    AppendSection(text, "latency", {"        none was measured"});
    return;
  }
  absl::StrAppendFormat(&text, "%-19s", "latency");
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&text, "%10s", quantile.name);
  }
  absl::StrAppendFormat(&text, "%10s%11s\n", "max", "samples");
  for (const Latency& latency : Latencies(result)) {
    const Histogram& histogram = *latency.histogram;
    if (histogram.count() == 0) continue;
    absl::StrAppendFormat(&text, "%-19s", latency.label);
    for (const Quantile& quantile : kQuantiles) {
      absl::StrAppendFormat(&text, "%10s",
                            FormatLatency(histogram.Quantile(quantile.value)));
    }
    absl::StrAppendFormat(&text, "%10s%11s\n", FormatLatency(histogram.max()),
                          FormatCount(histogram.count()));
  }
}

void AppendTotals(std::string& text, const LoadResult& result) {
  const Tally& tally = result.tally;
  AppendSection(
      text, "whole run",
      {absl::StrFormat("%12s requests: %s completed, %s failed, %s cut",
                       FormatCount(tally.begun), FormatCount(tally.completed),
                       FormatCount(tally.failed), FormatCount(tally.cut)),
       absl::StrFormat("%12s tokens drawn", FormatCount(tally.drawn_tokens)),
       absl::StrFormat("%12s steadystate_tokens_total kind=prompt",
                       FormatCount(tally.absorbed.prompt)),
       absl::StrFormat("%12s steadystate_tokens_total kind=generated",
                       FormatCount(tally.absorbed.generated))});
}

void AppendErrors(std::string& text, const LoadResult& result) {
  const Tally& tally = result.tally;
  std::vector<std::string> errors;
  for (const auto& [reason, count] : tally.server_errors) {
    errors.push_back(absl::StrFormat("%12s %s", FormatCount(count), reason));
  }
  for (const auto& [reason, count] : tally.client_errors) {
    errors.push_back(absl::StrFormat("%12s %s, not from the server",
                                     FormatCount(count), reason));
  }
  if (tally.given_up > 0) {
    errors.push_back(
        absl::StrFormat("%12s calls or steps given up by the tester",
                        FormatCount(tally.given_up)));
  }
  if (errors.empty()) errors.emplace_back("        none");
  AppendSection(text, "errors", errors);
  AppendSection(text, "tester",
                {absl::StrFormat("%12.2f of %d processors used",
                                 result.client_cpus, result.processors)});
}

std::string QueueText(const ServerUse::Queue& queue) {
  const auto format = [](const std::optional<double>& seconds) {
    return seconds ? FormatLatency(
                         std::chrono::nanoseconds(std::llround(*seconds * 1e9)))
                   : std::string("-");
  };
  return absl::StrFormat("%12s waited before %s (p50), %s (p99)",
                         format(queue.p50_seconds), queue.phase,
                         format(queue.p99_seconds));
}

void AppendServer(std::string& text, const LoadResult& result) {
  if (!result.server) {
    AppendSection(text, "server",
                  {"        not looked at: --metrics URL tells its processors "
                   "and queue"});
    return;
  }
  const ServerUse& server = *result.server;
  std::vector<std::string> lines;
  if (server.cpus) {
    lines.push_back(
        absl::StrFormat("%12.2f processors used, %g compute threads",
                        *server.cpus, server.compute_threads.value_or(0)));
  }
  if (server.peak_waiting) {
    lines.push_back(absl::StrFormat(
        "%12.0f requests waited at most when looked at", *server.peak_waiting));
  }
  for (const ServerUse::Queue& queue : server.queues) {
    if (queue.p50_seconds) lines.push_back(QueueText(queue));
  }
  if (lines.empty()) lines.emplace_back("        says nothing");
  AppendSection(text, "server", lines);
}

// A point of a sweep in a line.
class PointLine {
 public:
  PointLine(const SweepResult& result, const SweepPoint& point)
      : result_(result), point_(point) {}

  std::string Text() const {
    const bool slo = !result_.options.slo.empty();
    return absl::StrFormat(
        "%10s%12s%10s%10s%10s%10s%9s  %s\n", Value(),
        Number("tokens_per_second"), Number("requests_per_second"),
        Time("time_to_first_token_p50"), Time("time_to_first_token_p99"),
        Time("time_per_output_token_p99"),
        slo ? absl::StrFormat("%.1f %%", 100 * Mean("slo_attainment")) : "",
        Verdict());
  }

 private:
  std::string Value() const {
    return result_.spec.variable == SweepVariable::kNothing
               ? "mean"
               : absl::StrFormat("%g", point_.value);
  }
  double Mean(absl::string_view name) const {
    for (const Figure& figure : Figures(result_.options)) {
      if (figure.name == name) return EstimateOf(point_, figure).mean;
    }
    return 0;
  }
  std::string Number(absl::string_view name) const {
    return absl::StrFormat("%.1f", Mean(name));
  }
  std::string Time(absl::string_view name) const {
    return FormatLatency(
        std::chrono::nanoseconds(std::llround(Mean(name) * 1e9)));
  }
  std::string Verdict() const {
    const auto is_valid = [](const LoadResult& run) {
      return run.tally.completed > 0 && Objections(run).empty();
    };
    if (!std::all_of(point_.runs.begin(), point_.runs.end(), is_valid)) {
      return "INVALID";
    }
    if (!Holds(point_)) return "missed";
    const bool is_knee =
        result_.knee && &result_.points[*result_.knee] == &point_;
    return is_knee ? "knee" : "";
  }

  const SweepResult& result_;
  const SweepPoint& point_;
};

// What repeated runs say, and how sure they are.
void AppendConfidence(std::string& text, const SweepResult& result,
                      const SweepPoint& point) {
  std::vector<std::string> lines;
  for (const Figure& figure : Figures(result.options)) {
    const Estimate estimate = EstimateOf(point, figure);
    if (!estimate.half_width) continue;
    // Times in milliseconds, so that both numbers have one unit.
    const double unit = figure.seconds ? 1e3 : 1;
    lines.push_back(absl::StrFormat("%12.2f +- %.2f%s %s", estimate.mean * unit,
                                    *estimate.half_width * unit,
                                    figure.seconds ? " ms" : "", figure.label));
  }
  if (lines.empty()) return;
  absl::StrAppendFormat(
      &text, "\n%smean of %d runs, and how far it may be off at 95 %%\n",
      result.spec.variable == SweepVariable::kNothing ? "" : "knee: ",
      point.runs.size());
  AppendSection(text, "", lines);
}

void AppendSweepSettings(std::string& text, const SweepResult& result) {
  const LoadResult& settings = result.points[0].runs[0];
  AppendModel(text, settings.model);
  const SweepVariable variable = result.spec.variable;
  AppendSentences(text, "load",
                  {variable == SweepVariable::kSessions
                       ? absl::StrCat("a growing number of sessions, ",
                                      RpcName(settings.options.rpc))
                       : DescribeSessions(settings.options)});
  AppendSentences(text, "", {DescribeRequests(settings)});
  AppendSentences(text, "",
                  {variable == SweepVariable::kRate
                       ? "open loop of a growing rate; latency counts from the "
                         "intended send time"
                       : DescribeLoop(settings.options)});
  AppendSection(
      text, "measured",
      {absl::StrFormat("%d run%s of %.1f s for each line", result.repeat,
                       result.repeat == 1 ? "" : "s",
                       absl::ToDoubleSeconds(settings.options.duration))});
  if (!result.calibration) return;
  AppendSentences(
      text, "",
      {absl::StrFormat("rates are shares of %.1f requests/s, which a closed "
                       "loop of all sessions came to",
                       RequestsPerSecond(*result.calibration))});
}

// What each point has against itself, and what is worth knowing, each once.
void AppendSweepSentences(std::string& text, const SweepResult& result) {
  std::vector<std::string> objections;
  std::vector<std::string> remarks;
  for (const SweepPoint& point : result.points) {
    std::vector<std::string> of_point;
    for (const LoadResult& run : point.runs) {
      for (std::string& objection : Objections(run)) {
        of_point.push_back(std::move(objection));
      }
      for (std::string& remark : Remarks(run)) {
        if (!absl::c_linear_search(remarks, remark)) {
          remarks.push_back(std::move(remark));
        }
      }
    }
    if (of_point.empty()) continue;
    objections.push_back(
        absl::StrCat(result.spec.variable == SweepVariable::kNothing
                         ? ""
                         : absl::StrFormat("%g: ", point.value),
                     of_point[0]));
  }
  if (!objections.empty() || !remarks.empty()) text += '\n';
  AppendSentences(text, "INVALID", objections);
  AppendSentences(text, "note", remarks);
}

}  // namespace

std::string FormatLoadText(const LoadResult& result) {
  std::string text;
  AppendSettings(text, result);
  text += '\n';
  AppendRates(text, result);
  text += '\n';
  AppendLatencies(text, result);
  text += '\n';
  AppendTotals(text, result);
  AppendServer(text, result);
  AppendErrors(text, result);
  const auto objections = Objections(result);
  const auto remarks = Remarks(result);
  if (!objections.empty() || !remarks.empty()) text += '\n';
  AppendSentences(text, "INVALID", objections);
  AppendSentences(text, "note", remarks);
  return text;
}

std::string FormatSweepText(const SweepResult& result) {
  std::string text;
  if (result.points.empty()) return "no run came to its end\n";
  AppendSweepSettings(text, result);
  absl::StrAppendFormat(
      &text, "\n%10s%12s%10s%10s%10s%10s%9s\n%10s%12s%10s%10s%10s%10s%9s\n",
      VariableName(result.spec.variable), "generated", "requests", "to first",
      "to first", "per out.", result.options.slo.empty() ? "" : "good", "",
      "tokens/s", "/s", "token p50", "p99", "token p99", "");
  for (const SweepPoint& point : result.points) {
    text += PointLine(result, point).Text();
  }
  if (result.spec.variable == SweepVariable::kNothing) {
    AppendConfidence(text, result, result.points[0]);
  } else {
    text += '\n';
    AppendSentences(text, "knee", {DescribeKnee(result)});
  }
  if (result.knee) {
    AppendConfidence(text, result, result.points[*result.knee]);
  }
  AppendSweepSentences(text, result);
  return text;
}

}  // namespace steadystate::client
