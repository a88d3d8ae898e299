#include "client/cli/load_report.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/load_figures.h"

namespace steadystate::client {
namespace {

Json LatencyJson(const Histogram& histogram) {
  Json json{{"samples", histogram.count()}};
  if (histogram.count() == 0) return json;
  json["mean"] = Seconds(histogram.mean());
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = Seconds(histogram.Quantile(quantile.value));
  }
  json["max"] = Seconds(histogram.max());
  return json;
}

// As it always was: the tokens, or of a distribution their mean.
Json TokensJson(const Lengths& lengths) {
  if (lengths.least() == lengths.most()) return lengths.most();
  return lengths.mean();
}

Json OptionsJson(const LoadOptions& options) {
  return {{"rpc", RpcName(options.rpc)},
          {"loop", options.open_loop() ? "open" : "closed"},
          {"sessions", options.sessions},
          {"streams",
           options.rpc == LoadRpc::kStep ? options.streams : options.sessions},
          {"prompt_tokens", TokensJson(options.prompt_tokens)},
          {"generate_tokens", TokensJson(options.generate_tokens)},
          {"rate", options.rate},
          {"warmup_seconds", absl::ToDoubleSeconds(options.warmup)},
          {"duration_seconds", absl::ToDoubleSeconds(options.duration)},
          {"seed", options.seed}};
}

// Options that reports have had since later: in CSV they come last.
Json MoreOptionsJson(const LoadOptions& options) {
  return {{"connections", options.connections},
          {"prompt_lengths", options.prompt_tokens.ToString()},
          {"prompts", options.prompts ? options.prompts->size() : 0},
          {"generate_lengths", options.generate_tokens.ToString()},
          {"arrival_process", ArrivalsName(options)},
          {"stages", ToString(options.stages)},
          {"trace_arrivals", options.trace ? options.trace->size() : 0},
          {"slo", ToString(options.slo)},
          {"slo_attainment", options.slo.attainment},
          {"durability", DurabilityName(options)}};
}

Json TotalsJson(const LoadResult& result) {
  const Tally& tally = result.tally;
  return {{"requests", tally.begun},
          {"completed", tally.completed},
          {"failed", tally.failed},
          {"cut", tally.cut},
          {"never_sent", result.unsent},
          {"drawn_tokens", tally.drawn_tokens},
          {"sessions_created", result.sessions_created},
          {"sessions_left", result.sessions_left},
          {"server_tokens",
           {{"prompt", tally.absorbed.prompt},
            {"generated", tally.absorbed.generated}}},
          {"requests_of_unknown_extent", tally.of_unknown_extent},
          {"server_errors", Json(tally.server_errors)},
          {"client_errors", Json(tally.client_errors)},
          {"given_up", tally.given_up},
          {"unanswered", tally.window_unanswered},
          {"sessions_unheard", result.sessions_unheard},
          {"sessions_undeleted", result.sessions_undeleted}};
}

Json GoodputJson(const LoadResult& result) {
  if (result.options.slo.empty()) return nullptr;
  return {{"requests_per_second", Goodput(result)},
          {"good_requests", result.tally.window_good},
          {"requests", RequestsDue(result)},
          {"attainment", SloAttainment(result)},
          {"met", MeetsSlo(result)}};
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json ServerJson(const LoadResult& result) {
  if (!result.server) return nullptr;
  const ServerUse& server = *result.server;
  Json queues = Json::object();
  for (const ServerUse::Queue& queue : server.queues) {
    queues[queue.phase] = {{"p50", OrNull(queue.p50_seconds)},
                           {"p99", OrNull(queue.p99_seconds)}};
  }
  Json samples = Json::array();
  for (const ServerUse::Sample& sample : server.samples) {
    samples.push_back({{"seconds", sample.seconds},
                       {"cpus", OrNull(sample.cpus)},
                       {"waiting", OrNull(sample.waiting)}});
  }
  return {{"cpus", OrNull(server.cpus)},
          {"compute_threads", OrNull(server.compute_threads)},
          {"queue_seconds", std::move(queues)},
          {"peak_waiting", OrNull(server.peak_waiting)},
          {"peak_streams", OrNull(server.peak_streams)},
          {"peak_resident_bytes", OrNull(server.peak_resident_bytes)},
          {"missed_samples", server.missed},
          {"samples", std::move(samples)}};
}

Json TimelineJson(const LoadResult& result) {
  const Timeline& timeline = result.tally.timeline;
  Json slots = Json::array();
  for (const TimelineSlot& slot : timeline.slots()) {
    const auto quantile = [](const CoarseHistogram& histogram, double share) {
      return histogram.count() == 0 ? Json()
                                    : Json(Seconds(histogram.Quantile(share)));
    };
    slots.push_back(
        {{"drawn_tokens", slot.drawn_tokens},
         {"due", slot.due},
         {"completed", slot.completed},
         {"failed", slot.failed},
         {"time_to_first_token_p50", quantile(slot.time_to_first_token, 0.5)},
         {"time_to_first_token_p99", quantile(slot.time_to_first_token, 0.99)},
         {"inter_token_p50", quantile(slot.inter_token, 0.5)},
         {"inter_token_p99", quantile(slot.inter_token, 0.99)}});
  }
  return {{"slot_seconds", Seconds(timeline.slot_length())},
          {"slots", std::move(slots)}};
}

std::string ErrorsCsv(const Tally& tally) {
  std::vector<std::string> errors;
  for (const auto* from : {&tally.server_errors, &tally.client_errors}) {
    for (const auto& [reason, count] : *from) {
      errors.push_back(absl::StrCat(reason, "=", count));
    }
  }
  return absl::StrJoin(errors, " ");
}

// A field as RFC 4180 wants it. null is an empty one: a latency without samples
// is not 0.
std::string CsvField(const Json& value) {
  if (value.is_null()) return "";
  const std::string text =
      value.is_string() ? value.get<std::string>() : value.dump();
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// The report's plain values, each with its name, in an order that stays: what
// is new comes last.
class CsvRow {
 public:
  void Add(const std::string& name, const Json& value) {
    row_.emplace_back(name, CsvField(value));
  }
  void AddAll(const Json& object) {
    for (const auto& [name, value] : object.items()) Add(name, value);
  }
  void AddLatency(const char* name, const Json& values) {
    Add(absl::StrCat(name, "_samples"), values["samples"]);
    for (const Quantile& quantile : kQuantiles) {
      Add(absl::StrCat(name, "_", quantile.name, "_seconds"),
          values.value(quantile.name, Json()));
    }
    Add(absl::StrCat(name, "_max_seconds"), values.value("max", Json()));
  }

  std::string Names() const {
    return Line([](const auto& field) { return field.first; });
  }
  std::string Values() const {
    return Line([](const auto& field) { return field.second; });
  }

 private:
  template <typename F>
  std::string Line(F take) const {
    return absl::StrCat(absl::StrJoin(row_, ",",
                                      [&](std::string* out, const auto& field) {
                                        out->append(take(field));
                                      }),
                        "\n");
  }

  std::vector<std::pair<std::string, std::string>> row_;
};

CsvRow MakeCsvRow(const LoadResult& result) {
  CsvRow row;
  const Json json = FormatLoadJson(result);
  const Json& latencies = json["latency_seconds"];
  row.AddAll(OptionsJson(result.options));
  for (const char* name :
       {"measured_seconds", "interrupted", "valid", "tokens_per_second",
        "prompt_tokens_per_second", "requests_per_second", "arrivals"}) {
    row.Add(name, json[name]);
  }
  for (const char* name : {"time_to_first_token", "inter_token", "request",
                           "server_queue", "server_compute", "send_lag"}) {
    row.AddLatency(name, latencies[name]);
  }
  for (const char* name :
       {"requests", "completed", "failed", "cut", "never_sent", "unanswered",
        "given_up", "drawn_tokens"}) {
    row.Add(name, json["totals"][name]);
  }
  row.Add("server_prompt_tokens", result.tally.absorbed.prompt);
  row.Add("server_generated_tokens", result.tally.absorbed.generated);
  row.Add("errors", ErrorsCsv(result.tally));
  row.Add("client_cpus", result.client_cpus);
  row.AddAll(MoreOptionsJson(result.options));
  for (const char* name : {"time_per_output_token", "outside_server"}) {
    row.AddLatency(name, latencies[name]);
  }
  const Json& goodput = json["goodput"];
  for (const char* name : {"requests_per_second", "attainment", "met"}) {
    row.Add(absl::StrCat("goodput_", name),
            goodput.is_null() ? Json() : goodput[name]);
  }
  row.Add("server_cpus", result.server ? json["server"]["cpus"] : Json());
  return row;
}

}  // namespace

Json FormatLoadJson(const LoadResult& result) {
  const v1::Model& model = result.model;
  Json options = OptionsJson(result.options);
  options.update(MoreOptionsJson(result.options));
  Json latencies = Json::object();
  for (const Latency& latency : Latencies(result)) {
    latencies[latency.name] = LatencyJson(*latency.histogram);
  }
  return {{"schema", kLoadReportSchema},
          {"options", std::move(options)},
          {"model",
           {{"name", model.name()},
            {"family", model.family()},
            {"fingerprint", model.fingerprint()},
            {"weight_dtype", model.weight_dtype()},
            {"isa", model.execution().isa()},
            {"threads", model.execution().threads()}}},
          {"measured_seconds", absl::ToDoubleSeconds(result.window)},
          {"interrupted", result.interrupted},
          {"going_away", result.going_away},
          {"valid", Objections(result).empty()},
          {"objections", Objections(result)},
          {"remarks", Remarks(result)},
          {"tokens_per_second", TokensPerSecond(result)},
          {"prompt_tokens_per_second", PromptTokensPerSecond(result)},
          {"requests_per_second", RequestsPerSecond(result)},
          {"arrivals", result.arrivals},
          {"peak_backlog", result.peak_backlog},
          {"latency_seconds", std::move(latencies)},
          {"totals", TotalsJson(result)},
          {"client_cpus", result.client_cpus},
          {"processors", result.processors},
          {"goodput", GoodputJson(result)},
          {"mean_prompt_tokens", result.mean_prompt_tokens},
          {"peak_calls", result.peak_calls},
          {"server", ServerJson(result)},
          {"timeline", TimelineJson(result)}};
}

std::string FormatLoadCsv(const LoadResult& result) {
  const CsvRow row = MakeCsvRow(result);
  return absl::StrCat(row.Names(), row.Values());
}

Json FormatSweepJson(const SweepResult& result) {
  Json points = Json::array();
  for (const SweepPoint& point : result.points) {
    Json runs = Json::array();
    for (const LoadResult& run : point.runs) {
      runs.push_back(FormatLoadJson(run));
    }
    Json summary = Json::object();
    for (const Figure& figure : Figures(result.options)) {
      const Estimate estimate = EstimateOf(point, figure);
      summary[figure.name] = {{"mean", estimate.mean},
                              {"half_width_95", OrNull(estimate.half_width)}};
    }
    points.push_back({{"value", point.value},
                      {"holds", Holds(point)},
                      {"summary", std::move(summary)},
                      {"runs", std::move(runs)}});
  }
  Json knee;
  if (result.knee) {
    knee = {{"value", result.points[*result.knee].value},
            {"rule", KneeRule(result)}};
  }
  return {{"schema", kLoadSweepSchema},
          {"variable", VariableName(result.spec.variable)},
          {"repeat", result.repeat},
          {"interrupted", result.interrupted},
          {"complete", result.complete},
          {"knee", std::move(knee)},
          {"calibration",
           result.calibration ? FormatLoadJson(*result.calibration) : Json()},
          {"points", std::move(points)}};
}

std::string FormatSweepCsv(const SweepResult& result) {
  std::string text;
  for (const SweepPoint& point : result.points) {
    for (const LoadResult& run : point.runs) {
      const CsvRow row = MakeCsvRow(run);
      if (text.empty()) text = row.Names();
      text += row.Values();
    }
  }
  return text;
}

}  // namespace steadystate::client
