// What may be asked of a run, and what its result is worth.
#include "client/load/load.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace steadystate::client {
namespace {

constexpr uint64_t kMaxSessions = 1000000;
constexpr uint64_t kMaxStreams = 1024;
// As many as one step may have.
constexpr uint64_t kMaxPromptTokens = uint64_t{1} << 20;
constexpr uint64_t kMaxGenerateTokens = 1000000000;
constexpr double kMaxRate = 1e6;
constexpr absl::Duration kMaxTime = absl::Hours(24 * 365);

absl::Status Check(absl::string_view name, uint64_t value, uint64_t least,
                   uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", name, " is ", value, "; it must be ", least, " to ", most));
}

absl::Status Check(absl::string_view name, absl::Duration value) {
  if (value >= absl::ZeroDuration() && value <= kMaxTime) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " is ", absl::FormatDuration(value),
                   "; it must be 0 to ", absl::FormatDuration(kMaxTime)));
}

absl::Status CheckRate(double rate) {
  if (rate >= 0 && rate <= kMaxRate) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--rate is ", rate, "; it must be 0 (closed loop) to ",
                   static_cast<uint64_t>(kMaxRate), " requests per second"));
}

constexpr double kLagQuantile = 0.99;
// Of the requests that arrive.
constexpr double kAllowedDeficit = 0.01;
// Of the processors; beyond, the tester competes with what it measures.
constexpr double kBusyShare = 0.5;

double PerSecond(uint64_t count, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// What only requests that arrive by themselves can show.
void AddOpenLoopObjections(const LoadResult& result,
                           std::vector<std::string>& objections) {
  const auto lag = absl::FromChrono(result.send_lag.Quantile(kLagQuantile));
  if (lag > result.options.max_send_lag) {
    objections.push_back(absl::StrFormat(
        "the tester itself sent late: p99 of the send lag is %.1f ms, more "
        "than --max_send_lag %s",
        absl::ToDoubleMilliseconds(lag),
        absl::FormatDuration(result.options.max_send_lag)));
  }
  // As many as there are sessions may be under way when the window ends.
  const uint64_t failed = result.tally.window_failed;
  const uint64_t ended =
      result.tally.window_completed + failed + result.options.sessions;
  const auto arrivals = static_cast<double>(result.arrivals);
  if (static_cast<double>(failed) > arrivals * kAllowedDeficit) {
    objections.push_back(absl::StrCat(
        failed, " of ", result.arrivals,
        " requests that arrived failed; latencies leave them out"));
  }
  if (static_cast<double>(ended) < arrivals * (1 - kAllowedDeficit)) {
    objections.push_back(absl::StrFormat(
        "the rate was not achieved: %d requests arrived and %d were completed, "
        "%.1f/s; latencies grow for as long as the run lasts",
        result.arrivals, result.tally.window_completed,
        RequestsPerSecond(result)));
  }
  if (result.unsent > 0) {
    objections.push_back(absl::StrCat(
        result.unsent, " requests never found a free session in time"));
  }
}

}  // namespace

absl::Status Validate(const LoadOptions& options) {
  for (const absl::Status& status :
       {Check("sessions", options.sessions, 1, kMaxSessions),
        Check("streams", options.streams, 1, kMaxStreams),
        Check("prompt_tokens", options.prompt_tokens, 1, kMaxPromptTokens),
        Check("generate_tokens", options.generate_tokens, 1,
              kMaxGenerateTokens),
        CheckRate(options.rate), Check("warmup", options.warmup),
        Check("duration", options.duration), Check("drain", options.drain),
        Check("max_send_lag", options.max_send_lag)}) {
    if (!status.ok()) return status;
  }
  if (options.streams > options.sessions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--streams is ", options.streams, ", more than the ", options.sessions,
        " of --sessions; a stream carries at least one session"));
  }
  return absl::OkStatus();
}

double TokensPerSecond(const LoadResult& result) {
  return PerSecond(result.tally.window_drawn_tokens, result.window);
}

double PromptTokensPerSecond(const LoadResult& result) {
  return PerSecond(result.tally.window_prompt_tokens, result.window);
}

double RequestsPerSecond(const LoadResult& result) {
  return PerSecond(result.tally.window_completed, result.window);
}

std::vector<std::string> Objections(const LoadResult& result) {
  std::vector<std::string> objections;
  if (result.tally.window_unanswered > 0) {
    objections.push_back(absl::StrCat(
        result.tally.window_unanswered,
        " requests that were to be sent in the time measured had no complete "
        "answer when the drain ended; latencies count what they had waited, "
        "which is the least that they can be"));
  }
  if (result.sessions_unheard > 0) {
    objections.push_back(absl::StrCat(
        result.sessions_unheard, " of ", result.sessions_created,
        " sessions never had an answer; if the server admits fewer calls at "
        "once (--max_concurrent_streams of steadystate-server), give fewer ",
        result.options.rpc == LoadRpc::kStep ? "--streams" : "--sessions",
        " or let it admit more"));
  }
  if (result.options.open_loop()) AddOpenLoopObjections(result, objections);
  return objections;
}

std::vector<std::string> Remarks(const LoadResult& result) {
  std::vector<std::string> remarks;
  const auto processors = static_cast<double>(result.processors);
  if (result.client_cpus > processors * kBusyShare) {
    remarks.push_back(absl::StrFormat(
        "the tester used %.1f of %d processors: it may be the bottleneck, or "
        "take time from a server on the same machine",
        result.client_cpus, result.processors));
  }
  if (result.tally.of_unknown_extent > 0) {
    remarks.push_back(
        absl::StrCat("how many tokens the server absorbed for ",
                     result.tally.of_unknown_extent,
                     " requests is not known; its count may be higher"));
  }
  if (result.tally.given_up > 0) {
    remarks.push_back(absl::StrCat(
        "the tester itself gave up on ", result.tally.given_up,
        " calls or steps, which the server may count as CANCELLED or "
        "DEADLINE_EXCEEDED; they are not in the count of its errors"));
  }
  if (result.sessions_undeleted > 0) {
    remarks.push_back(absl::StrCat(
        result.sessions_undeleted,
        " sessions could not be deleted and may still be on the server; see "
        "`steadystate session list`"));
  }
  if (result.sessions_left < result.options.sessions) {
    remarks.push_back(
        absl::StrCat("of ", result.options.sessions, " sessions ",
                     result.sessions_created, " could be created and ",
                     result.sessions_left, " were in use at the end"));
  }
  if (result.going_away) {
    remarks.emplace_back(
        "the server said that it was about to shut down: no requests were "
        "begun after that");
  }
  if (result.tally.completed == 0 && result.tally.failed == 0 &&
      result.sessions_created > 0) {
    remarks.emplace_back(
        "no request came to its end; give a longer --duration or --drain");
  }
  return remarks;
}

}  // namespace steadystate::client
