#include "client/cli/load_sweep_html.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/load_figures.h"
#include "client/cli/load_html.h"
#include "client/cli/load_page.h"
#include "client/cli/load_plot.h"

namespace steadystate::client {
namespace {

using Tone = HtmlPage::Tone;

const char* AxisName(SweepVariable variable) {
  switch (variable) {
    case SweepVariable::kRate:
      return "requests per second that arrive";
    case SweepVariable::kSessions:
      return "sessions";
    case SweepVariable::kNothing:
      break;
  }
  return "run";
}

// What the runs of a point come to; of runs that are repeated without a
// variable, each run by itself.
class SweepPlots {
 public:
  explicit SweepPlots(const SweepResult& result)
      : result_(result),
        repeats_(result.spec.variable == SweepVariable::kNothing) {}

  PlotSeries Series(const char* name, const char* label) const {
    PlotSeries series{label, {}};
    series.marks = true;
    for (const Figure& figure : Figures(result_.options)) {
      if (absl::string_view(figure.name) == name) Add(figure, series);
    }
    return series;
  }

  Plot Make(const char* title, AxisKind kind,
            std::vector<PlotSeries> series) const {
    Plot plot{title, AxisName(result_.spec.variable)};
    plot.y_kind = kind;
    plot.series = std::move(series);
    if (result_.knee) {
      plot.vertical = {{result_.points[*result_.knee].value, "knee"}};
    }
    return plot;
  }

  PlotSeries ServerCpus() const {
    PlotSeries series{"server", {}};
    series.marks = true;
    for (const SweepPoint& point : result_.points) {
      const auto& server = point.runs[0].server;
      if (server && server->cpus) {
        series.points.push_back({point.value, *server->cpus});
      }
    }
    return series;
  }

 private:
  void Add(const Figure& figure, PlotSeries& series) const {
    for (const SweepPoint& point : result_.points) {
      if (!repeats_) {
        const Estimate estimate = EstimateOf(point, figure);
        series.points.push_back({point.value, estimate.mean,
                                 estimate.half_width.value_or(0),
                                 !Holds(point)});
        continue;
      }
      for (const LoadResult& run : point.runs) {
        series.points.push_back(
            {static_cast<double>(series.points.size() + 1), figure.of(run)});
      }
    }
  }

  const SweepResult& result_;
  const bool repeats_;
};

std::vector<Plot> PlotsOf(const SweepResult& result) {
  const SweepPlots plots(result);
  const Slo& slo = result.options.slo;
  Plot first = plots.Make("Time to first token", AxisKind::kLogTime,
                          {plots.Series("time_to_first_token_p50", "p50"),
                           plots.Series("time_to_first_token_p99", "p99")});
  first.horizontal = Limit(slo.time_to_first_token, "ttft");
  Plot output = plots.Make("Time per output token", AxisKind::kLogTime,
                           {plots.Series("time_per_output_token_p50", "p50"),
                            plots.Series("time_per_output_token_p99", "p99")});
  output.horizontal = Limit(slo.time_per_output_token, "tpot");
  std::vector<PlotSeries> requests = {
      plots.Series("requests_per_second", "completed")};
  if (!slo.empty()) requests.push_back(plots.Series("goodput", "good"));
  Plot cpus = plots.Make("Processors that the server uses", AxisKind::kNumber,
                         {plots.ServerCpus()});
  return {
      plots.Make("Generated tokens per second", AxisKind::kNumber,
                 {plots.Series("tokens_per_second", "tokens/s")}),
      plots.Make("Requests per second", AxisKind::kNumber, std::move(requests)),
      first, output, cpus};
}

std::string VerdictOf(const SweepResult& result, size_t index) {
  const SweepPoint& point = result.points[index];
  if (result.knee == index) return "knee";
  if (Holds(point)) return "holds";
  for (const LoadResult& run : point.runs) {
    if (!Objections(run).empty()) return "INVALID";
  }
  return "missed";
}

void AddPoints(HtmlPage& page, const SweepResult& result) {
  const auto figures = Figures(result.options);
  std::vector<std::string> names = {VariableName(result.spec.variable)};
  if (names[0].empty()) names[0] = "mean";
  names.emplace_back("verdict");
  for (const Figure& figure : figures) names.emplace_back(figure.label);
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < result.points.size(); ++i) {
    const SweepPoint& point = result.points[i];
    std::vector<std::string> row = {
        result.spec.variable == SweepVariable::kNothing
            ? absl::StrCat(point.runs.size(), " runs")
            : absl::StrFormat("%g", point.value),
        VerdictOf(result, i)};
    for (const Figure& figure : figures) {
      const Estimate estimate = EstimateOf(point, figure);
      const auto format = [&figure](double value) {
        return figure.seconds ? TimeText(value)
                              : absl::StrFormat("%.2f", value);
      };
      row.push_back(format(estimate.mean));
      if (estimate.half_width) {
        absl::StrAppend(&row.back(), " \xc2\xb1 ",
                        format(*estimate.half_width));
      }
    }
    rows.push_back(std::move(row));
  }
  page.AddHeading("The runs");
  page.AddTable(names, rows);
}

// What each run had against itself, with where it stood.
std::vector<std::string> SweepSentences(
    const SweepResult& result,
    std::vector<std::string> (*of)(const LoadResult& run)) {
  std::vector<std::string> sentences;
  for (const SweepPoint& point : result.points) {
    const std::vector<std::string> first = of(point.runs[0]);
    if (first.empty()) continue;
    sentences.push_back(
        result.spec.variable == SweepVariable::kNothing
            ? first[0]
            : absl::StrFormat("%s %g: %s", VariableName(result.spec.variable),
                              point.value, first[0]));
  }
  return sentences;
}

std::string SweepTitle(const SweepResult& result) {
  switch (result.spec.variable) {
    case SweepVariable::kRate:
      return "Load report: sweep of rates";
    case SweepVariable::kSessions:
      return "Load report: sweep of sessions";
    case SweepVariable::kNothing:
      break;
  }
  return "Load report: repeated runs";
}

std::pair<std::string, Tone> SweepBadge(const SweepResult& result) {
  if (result.spec.variable == SweepVariable::kNothing) {
    return Holds(result.points[0])
               ? std::pair("every run holds", Tone::kGood)
               : std::pair("a run does not hold", Tone::kBad);
  }
  if (!result.knee) return {"no knee", Tone::kBad};
  return {absl::StrFormat("knee at %s %g", VariableName(result.spec.variable),
                          result.points[*result.knee].value),
          Tone::kGood};
}

}  // namespace

std::string FormatSweepHtml(const SweepResult& result) {
  if (result.points.empty()) {
    return HtmlPage(SweepTitle(result), "", "no run came to its end",
                    Tone::kBad)
        .Take();
  }
  const auto [badge, tone] = SweepBadge(result);
  const size_t shown = result.knee.value_or(0);
  const LoadResult& run = result.points[shown].runs[0];
  HtmlPage page(SweepTitle(result), ModelText(run.model), badge, tone);
  if (result.knee) page.AddTiles(RunTiles(run));
  if (result.spec.variable != SweepVariable::kNothing) {
    page.AddSentences("knee", Tone::kNeutral,
                      {DescribeKnee(result) +
                       ". Hollow marks are of runs that are INVALID or missed "
                       "the SLO."});
  }
  page.AddPlots(PlotsOf(result));
  AddPoints(page, result);
  page.AddSentences("INVALID", Tone::kBad, SweepSentences(result, Objections));
  page.AddSentences("note", Tone::kNeutral, SweepSentences(result, Remarks));
  AddRunFacts(page, run);
  return std::move(page).Take();
}

}  // namespace steadystate::client
