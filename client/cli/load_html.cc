#include "client/cli/load_html.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/load_figures.h"
#include "client/cli/load_page.h"
#include "client/cli/load_plot.h"

namespace steadystate::client {
namespace {

using Tone = HtmlPage::Tone;

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

std::string QuantileText(const Histogram& histogram, double quantile) {
  return histogram.count() == 0 ? "-"
                                : FormatLatency(histogram.Quantile(quantile));
}

HtmlPage::Tile LatencyTile(const char* name, const Histogram& histogram) {
  const std::pair<std::string, std::string> words =
      absl::StrSplit(QuantileText(histogram, 0.5), ' ');
  return {name, words.first, words.second,
          absl::StrCat("p50; p99 ", QuantileText(histogram, 0.99))};
}

// How latencies are distributed, up to the quantile that ten samples are beyond
// of: what is higher is chance.
PlotSeries QuantileSeries(const char* name, const Histogram& histogram) {
  PlotSeries series{name, {}};
  const double most =
      1 - 10 / std::max(static_cast<double>(histogram.count()), 10.0);
  for (double nines = 0.05; nines <= 4; nines += 0.05) {
    const double quantile = 1 - std::pow(10, -nines);
    if (quantile > most) break;
    series.points.push_back({quantile, Seconds(histogram.Quantile(quantile))});
  }
  return series;
}

Plot LatencyPlot(const LoadResult& result) {
  const Tally& tally = result.tally;
  Plot plot{"How latencies are distributed", "percentile"};
  plot.x_kind = AxisKind::kQuantile;
  plot.y_kind = AxisKind::kLogTime;
  plot.series = {
      QuantileSeries("time to first token", tally.time_to_first_token),
      QuantileSeries("time per output token", tally.time_per_output_token),
      QuantileSeries("inter-token", tally.inter_token),
      QuantileSeries("whole request", tally.request)};
  return plot;
}

// What a timeline says, one value of each slot, at its middle.
template <typename F>
PlotSeries SlotSeries(const char* name, const LoadResult& result, F value) {
  const Timeline& timeline = result.tally.timeline;
  const double length = Seconds(timeline.slot_length());
  const double window = absl::ToDoubleSeconds(result.window);
  PlotSeries series{name, {}};
  for (size_t i = 0; i < timeline.slots().size(); ++i) {
    const double begin = static_cast<double>(i) * length;
    // The last one may be cut by the end of the time measured.
    const double lasts = std::min(length, window - begin);
    if (lasts < length / 2 && i > 0) break;
    series.points.push_back(
        {begin + lasts / 2, value(timeline.slots()[i], lasts)});
  }
  return series;
}

template <CoarseHistogram TimelineSlot::*kMember>
std::vector<PlotSeries> SlotLatencies(const LoadResult& result) {
  std::vector<PlotSeries> series;
  for (const Quantile& quantile : {kQuantiles[0], kQuantiles[2]}) {
    series.push_back(SlotSeries(
        quantile.name, result, [&quantile](const TimelineSlot& slot, double) {
          const CoarseHistogram& histogram = slot.*kMember;
          return histogram.count() == 0
                     ? kGap
                     : Seconds(histogram.Quantile(quantile.value));
        }));
  }
  return series;
}

Plot OverTime(const char* title, AxisKind kind,
              std::vector<PlotSeries> series) {
  Plot plot{title, "seconds since the warm-up"};
  plot.y_kind = kind;
  plot.series = std::move(series);
  return plot;
}

std::vector<Plot> TimePlots(const LoadResult& result) {
  const auto per_second = [&result](const char* name,
                                    uint64_t TimelineSlot::*member) {
    return SlotSeries(name, result,
                      [member](const TimelineSlot& slot, double seconds) {
                        return static_cast<double>(slot.*member) / seconds;
                      });
  };
  std::vector<Plot> plots = {
      OverTime("Generated tokens per second", AxisKind::kNumber,
               {per_second("tokens/s", &TimelineSlot::drawn_tokens)}),
      OverTime("Time to first token, by when requests were due",
               AxisKind::kSeconds,
               SlotLatencies<&TimelineSlot::time_to_first_token>(result)),
      OverTime("Inter-token latency", AxisKind::kSeconds,
               SlotLatencies<&TimelineSlot::inter_token>(result)),
      LatencyPlot(result)};
  plots[1].horizontal = Limit(result.options.slo.time_to_first_token, "ttft");
  const bool failures = result.tally.window_failed > 0;
  if (!result.options.open_loop() && !failures) return plots;
  Plot requests = OverTime("Requests per second", AxisKind::kNumber,
                           {per_second("completed", &TimelineSlot::completed)});
  if (result.options.open_loop()) {
    requests.series.push_back(per_second("due", &TimelineSlot::due));
  }
  if (failures) {
    requests.series.push_back(per_second("failed", &TimelineSlot::failed));
  }
  plots.insert(plots.begin() + 1, std::move(requests));
  return plots;
}

void AppendServerPlots(const LoadResult& result, std::vector<Plot>& plots) {
  if (!result.server) return;
  PlotSeries cpus{"processors", {}};
  PlotSeries waiting{"requests", {}};
  for (const ServerUse::Sample& sample : result.server->samples) {
    cpus.points.push_back({sample.seconds, sample.cpus.value_or(kGap)});
    waiting.points.push_back({sample.seconds, sample.waiting.value_or(kGap)});
  }
  plots.push_back(
      OverTime("Processors that the server uses", AxisKind::kNumber, {cpus}));
  if (const auto threads = result.server->compute_threads) {
    plots.back().horizontal = {
        {*threads, absl::StrFormat("%g compute threads", *threads)}};
  }
  plots.push_back(OverTime("Requests that wait in the server's queue",
                           AxisKind::kNumber, {waiting}));
}

void AddLatencies(HtmlPage& page, const LoadResult& result) {
  std::vector<std::string> names = {"latency"};
  for (const Quantile& quantile : kQuantiles) names.emplace_back(quantile.name);
  names.insert(names.end(), {"max", "mean", "samples"});
  std::vector<std::vector<std::string>> rows;
  for (const Latency& latency : Latencies(result)) {
    const Histogram& histogram = *latency.histogram;
    if (histogram.count() == 0) continue;
    std::vector<std::string> row = {latency.label};
    for (const Quantile& quantile : kQuantiles) {
      row.push_back(QuantileText(histogram, quantile.value));
    }
    row.push_back(FormatLatency(histogram.max()));
    row.push_back(FormatLatency(histogram.mean()));
    row.push_back(FormatCount(histogram.count()));
    rows.push_back(std::move(row));
  }
  page.AddHeading("Latencies");
  page.AddTable(names, rows);
}

std::string ErrorsText(const Tally& tally) {
  std::string text;
  for (const auto* errors : {&tally.server_errors, &tally.client_errors}) {
    for (const auto& [reason, count] : *errors) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", FormatCount(count), " ",
                      reason);
    }
  }
  return text.empty() ? "none" : text;
}

std::string QueuesText(const ServerUse& server) {
  std::string text;
  for (const ServerUse::Queue& queue : server.queues) {
    if (!queue.p50_seconds || !queue.p99_seconds) continue;
    absl::StrAppend(&text, text.empty() ? "" : "; ", queue.phase, " p50 ",
                    TimeText(*queue.p50_seconds), ", p99 ",
                    TimeText(*queue.p99_seconds));
  }
  return text.empty() ? "nobody waited" : text;
}

std::pair<std::string, Tone> Badge(const LoadResult& result) {
  if (!Objections(result).empty()) return {"INVALID", Tone::kBad};
  if (!MeetsSlo(result)) return {"SLO missed", Tone::kBad};
  if (!result.options.slo.empty()) return {"valid, SLO met", Tone::kGood};
  return {"valid", Tone::kGood};
}

}  // namespace

std::string TimeText(double seconds) {
  return FormatLatency(std::chrono::nanoseconds(std::llround(seconds * 1e9)));
}

std::string ModelText(const v1::Model& model) {
  return absl::StrFormat("%s: %s, %s weights, %s, %d threads, %s",
                         absl::StripPrefix(model.name(), "models/"),
                         model.family(), FormatCount(model.parameter_count()),
                         model.weight_dtype(), model.execution().threads(),
                         model.execution().isa());
}

std::vector<PlotGuide> Limit(const std::optional<absl::Duration>& limit,
                             const char* name) {
  if (!limit) return {};
  return {{absl::ToDoubleSeconds(*limit),
           absl::StrCat("SLO ", name, " ", absl::FormatDuration(*limit))}};
}

std::vector<HtmlPage::Tile> RunTiles(const LoadResult& result) {
  const Tally& tally = result.tally;
  std::vector<HtmlPage::Tile> tiles = {
      {"Generated", absl::StrFormat("%.1f", TokensPerSecond(result)),
       "tokens/s",
       absl::StrFormat("%.1f prompt tokens/s", PromptTokensPerSecond(result))},
      {"Requests", absl::StrFormat("%.1f", RequestsPerSecond(result)), "/s",
       result.options.open_loop()
           ? absl::StrCat(FormatCount(result.arrivals), " arrived")
           : absl::StrCat(FormatCount(tally.window_completed), " completed")},
      LatencyTile("Time to first token", tally.time_to_first_token),
      LatencyTile("Time per output token", tally.time_per_output_token)};
  if (!result.options.slo.empty()) {
    tiles.push_back({"Goodput", absl::StrFormat("%.1f", Goodput(result)), "/s",
                     absl::StrFormat("%.2f %% good, %g %% wanted",
                                     100 * SloAttainment(result),
                                     100 * result.options.slo.attainment)});
  }
  if (result.server && result.server->cpus) {
    tiles.push_back({"Server", absl::StrFormat("%.2f", *result.server->cpus),
                     "processors",
                     absl::StrFormat("%g compute threads; tester %.2f",
                                     result.server->compute_threads.value_or(0),
                                     result.client_cpus)});
  }
  return tiles;
}

void AddRunFacts(HtmlPage& page, const LoadResult& result) {
  const LoadOptions& options = result.options;
  const Tally& tally = result.tally;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"model", ModelText(result.model)},
      {"fingerprint", result.model.fingerprint()},
      {"load", DescribeSessions(options)},
      {"requests", DescribeRequests(result)},
      {"arrivals",
       absl::StrCat(DescribeLoop(options), "; seed ", options.seed)},
      {"measured", absl::StrFormat("%.1f s after %.1f s of warm-up%s",
                                   absl::ToDoubleSeconds(result.window),
                                   absl::ToDoubleSeconds(options.warmup),
                                   result.interrupted ? ", interrupted" : "")},
      {"whole run",
       absl::StrCat(FormatCount(tally.begun),
                    " requests: ", FormatCount(tally.completed), " completed, ",
                    FormatCount(tally.failed), " failed, ",
                    FormatCount(tally.cut), " cut; ",
                    FormatCount(tally.drawn_tokens), " tokens drawn")},
      {"errors", ErrorsText(tally)},
      {"tester", absl::StrFormat("%.2f of %d processors used",
                                 result.client_cpus, result.processors)}};
  if (!result.server) {
    facts.emplace_back("server",
                       "its metrics were not looked at (no --metrics)");
  } else {
    const ServerUse& server = *result.server;
    facts.emplace_back(
        "server",
        absl::StrFormat("%.2f processors used, %g compute "
                        "threads; %.0f MB resident",
                        server.cpus.value_or(0),
                        server.compute_threads.value_or(0),
                        server.peak_resident_bytes.value_or(0) / 1e6));
    facts.emplace_back("server's queue", QueuesText(server));
  }
  page.AddHeading("What was run");
  page.AddFacts(facts);
}

std::string FormatLoadHtml(const LoadResult& result) {
  const auto [badge, tone] = Badge(result);
  HtmlPage page("Load report", ModelText(result.model), badge, tone);
  page.AddTiles(RunTiles(result));
  page.AddSentences("INVALID", Tone::kBad, Objections(result));
  if (!result.options.slo.empty()) {
    page.AddSentences("SLO", Tone::kNeutral, {DescribeSlo(result)});
  }
  page.AddSentences("note", Tone::kNeutral, Remarks(result));
  std::vector<Plot> plots = TimePlots(result);
  AppendServerPlots(result, plots);
  page.AddPlots(std::move(plots));
  AddLatencies(page, result);
  AddRunFacts(page, result);
  return std::move(page).Take();
}

}  // namespace steadystate::client
