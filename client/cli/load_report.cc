#include "client/cli/load_report.h"

#include <array>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/options/help.h"

namespace steadystate::client {
namespace {

constexpr size_t kIndent = 12;

struct Quantile {
  const char* name;
  double value;
};
constexpr std::array<Quantile, 4> kQuantiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}}};

// One latency of the report. Those without samples are left out of the text.
struct Latency {
  const char* name;   // "inter_token"
  const char* label;  // "inter-token"
  const Histogram* histogram;
};

std::vector<Latency> Latencies(const LoadResult& result) {
  const Tally& tally = result.tally;
  return {{"time_to_first_token", "time to first token",
           &tally.time_to_first_token},
          {"inter_token", "inter-token", &tally.inter_token},
          {"request", "whole request", &tally.request},
          {"server_queue", "in server's queue", &tally.server_queue},
          {"server_compute", "server computes", &tally.server_compute},
          {"send_lag", "tester's send lag", &result.send_lag}};
}

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

const char* RpcName(LoadRpc rpc) {
  return rpc == LoadRpc::kStep ? "StreamStep" : "Generate";
}

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

void AppendSettings(std::string& text, const LoadResult& result) {
  const LoadOptions& options = result.options;
  const v1::Model& model = result.model;
  const std::string streams =
      options.rpc == LoadRpc::kStep
          ? absl::StrCat(" over ", options.streams, " StreamStep stream",
                         options.streams == 1 ? "" : "s")
          : ", a Generate call for each request";
  const std::string loop =
      options.open_loop()
          ? absl::StrCat("open loop of ", options.rate,
                         " requests/s (Poisson); latency counts from the "
                         "intended send time")
          : "closed loop";
  AppendSection(
      text, "model",
      {absl::StrFormat("%s: %s, %s weights, %s, %d threads",
                       absl::StripPrefix(model.name(), "models/"),
                       model.family(), FormatCount(model.parameter_count()),
                       model.weight_dtype(), model.execution().threads())});
  AppendSection(
      text, "load",
      {absl::StrFormat("%d session%s%s", options.sessions,
                       options.sessions == 1 ? "" : "s", streams),
       absl::StrFormat("%d prompt and %d generated tokens a request",
                       options.prompt_tokens, options.generate_tokens)});
  AppendSentences(text, "", {absl::StrCat(loop, "; seed ", options.seed)});
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

Json OptionsJson(const LoadOptions& options) {
  return {{"rpc", RpcName(options.rpc)},
          {"loop", options.open_loop() ? "open" : "closed"},
          {"sessions", options.sessions},
          {"streams",
           options.rpc == LoadRpc::kStep ? options.streams : options.sessions},
          {"prompt_tokens", options.prompt_tokens},
          {"generate_tokens", options.generate_tokens},
          {"rate", options.rate},
          {"warmup_seconds", absl::ToDoubleSeconds(options.warmup)},
          {"duration_seconds", absl::ToDoubleSeconds(options.duration)},
          {"seed", options.seed}};
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

std::string ErrorsCsv(const Tally& tally) {
  std::vector<std::string> errors;
  for (const auto* from : {&tally.server_errors, &tally.client_errors}) {
    for (const auto& [reason, count] : *from) {
      errors.push_back(absl::StrCat(reason, "=", count));
    }
  }
  return absl::StrJoin(errors, " ");
}

}  // namespace

std::string FormatLatency(std::chrono::nanoseconds duration) {
  const double seconds = Seconds(duration);
  double value = seconds;
  const char* unit = "s";
  if (seconds < 0.9995e-3) {
    value = seconds * 1e6;
    unit = "us";
  } else if (seconds < 0.9995) {
    value = seconds * 1e3;
    unit = "ms";
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f %s", decimals, value, unit);
}

std::string FormatCount(uint64_t count) {
  const std::string digits = absl::StrCat(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string FormatLoadText(const LoadResult& result) {
  std::string text;
  AppendSettings(text, result);
  text += '\n';
  AppendRates(text, result);
  text += '\n';
  AppendLatencies(text, result);
  text += '\n';
  AppendTotals(text, result);
  const auto objections = Objections(result);
  const auto remarks = Remarks(result);
  if (!objections.empty() || !remarks.empty()) text += '\n';
  AppendSentences(text, "INVALID", objections);
  AppendSentences(text, "note", remarks);
  return text;
}

Json FormatLoadJson(const LoadResult& result) {
  const v1::Model& model = result.model;
  Json latencies = Json::object();
  for (const Latency& latency : Latencies(result)) {
    latencies[latency.name] = LatencyJson(*latency.histogram);
  }
  return {{"schema", kLoadReportSchema},
          {"options", OptionsJson(result.options)},
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
          {"processors", result.processors}};
}

std::string FormatLoadCsv(const LoadResult& result) {
  // The members of the report's objects of plain values, each with its name.
  std::vector<std::string> names;
  std::vector<std::string> values;
  // null is an empty field: a latency without samples is not 0.
  const auto add = [&](const std::string& name, const Json& value) {
    names.push_back(name);
    values.push_back(value.is_string() ? value.get<std::string>()
                     : value.is_null() ? ""
                                       : value.dump());
  };
  const Json json = FormatLoadJson(result);
  for (const auto& [name, value] : json["options"].items()) add(name, value);
  for (const char* name :
       {"measured_seconds", "interrupted", "valid", "tokens_per_second",
        "prompt_tokens_per_second", "requests_per_second", "arrivals"}) {
    add(name, json[name]);
  }
  for (const Latency& latency : Latencies(result)) {
    const Json& values_of = json["latency_seconds"][latency.name];
    add(absl::StrCat(latency.name, "_samples"), values_of["samples"]);
    for (const Quantile& quantile : kQuantiles) {
      add(absl::StrCat(latency.name, "_", quantile.name, "_seconds"),
          values_of.value(quantile.name, Json()));
    }
    add(absl::StrCat(latency.name, "_max_seconds"),
        values_of.value("max", Json()));
  }
  for (const char* name :
       {"requests", "completed", "failed", "cut", "never_sent", "unanswered",
        "given_up", "drawn_tokens"}) {
    add(name, json["totals"][name]);
  }
  add("server_prompt_tokens", result.tally.absorbed.prompt);
  add("server_generated_tokens", result.tally.absorbed.generated);
  add("errors", ErrorsCsv(result.tally));
  add("client_cpus", result.client_cpus);
  return absl::StrCat(absl::StrJoin(names, ","), "\n",
                      absl::StrJoin(values, ","), "\n");
}

}  // namespace steadystate::client
