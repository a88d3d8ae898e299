#include "client/cli/load_figures.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace steadystate::client {

std::vector<Latency> Latencies(const LoadResult& result) {
  const Tally& tally = result.tally;
  return {{"time_to_first_token", "time to first token",
           &tally.time_to_first_token},
          {"time_per_output_token", "time per out. token",
           &tally.time_per_output_token},
          {"inter_token", "inter-token", &tally.inter_token},
          {"request", "whole request", &tally.request},
          {"server_queue", "in server's queue", &tally.server_queue},
          {"server_compute", "server computes", &tally.server_compute},
          {"outside_server", "outside the server", &tally.outside_server},
          {"send_lag", "tester's send lag", &result.send_lag}};
}

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

const char* RpcName(LoadRpc rpc) {
  return rpc == LoadRpc::kStep ? "StreamStep" : "Generate";
}

const char* ArrivalsName(const LoadOptions& options) {
  if (options.trace != nullptr) return "trace";
  if (!options.open_loop()) return "";
  return options.arrivals == ArrivalProcess::kPoisson ? "poisson" : "constant";
}

std::string DescribeRequests(const LoadResult& result) {
  const LoadOptions& options = result.options;
  if (options.prompts == nullptr) {
    return absl::StrCat(options.prompt_tokens.ToString(), " prompt and ",
                        options.generate_tokens.ToString(),
                        " generated tokens a request");
  }
  return absl::StrFormat(
      "%s prompts of a file, %.1f tokens on average, and %s generated tokens "
      "a request",
      FormatCount(options.prompts->size()), result.mean_prompt_tokens,
      options.generate_tokens.ToString());
}

std::string DescribeLoop(const LoadOptions& options) {
  if (!options.open_loop()) return "closed loop";
  if (options.trace != nullptr) {
    return absl::StrCat("open loop of a trace of ",
                        FormatCount(options.trace->size()), " arrivals");
  }
  const char* process = options.arrivals == ArrivalProcess::kPoisson
                            ? "(Poisson)"
                            : "(at equal distances)";
  if (!options.stages.empty()) {
    return absl::StrCat("open loop in stages ", ToString(options.stages), " ",
                        process);
  }
  return absl::StrCat("open loop of ", options.rate, " requests/s ", process);
}

std::string DurabilityName(const LoadOptions& options) {
  if (!options.durability.has_value()) return "ephemeral";
  return absl::AsciiStrToLower(
      v1::Session::Durability_Name(*options.durability));
}

std::string DescribeSessions(const LoadOptions& options) {
  std::string text = absl::StrCat(options.sessions, " session",
                                  options.sessions == 1 ? "" : "s");
  if (options.rpc == LoadRpc::kStep) {
    absl::StrAppend(&text, " over ", options.streams, " StreamStep stream",
                    options.streams == 1 ? "" : "s");
  } else {
    absl::StrAppend(&text, ", a Generate call for each request");
  }
  if (options.connections > 1) {
    absl::StrAppend(&text, ", ", options.connections, " connections");
  }
  if (options.durability.has_value()) {
    absl::StrAppend(&text, ", durability ", DurabilityName(options));
  }
  return text;
}

std::string DescribeSlo(const LoadResult& result) {
  const Slo& slo = result.options.slo;
  return absl::StrFormat(
      "%.2f %% of %s requests within %s, %g %% wanted: %s",
      100 * SloAttainment(result), FormatCount(RequestsDue(result)),
      ToString(slo), 100 * slo.attainment, MeetsSlo(result) ? "met" : "missed");
}

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

}  // namespace steadystate::client
