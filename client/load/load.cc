// What the result of a run is worth.
#include "client/load/load.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace steadystate::client {
namespace {

constexpr double kLagQuantile = 0.99;
// Of the requests that arrive.
constexpr double kAllowedDeficit = 0.01;
// Of the processors; beyond, the tester competes with what it measures.
constexpr double kBusyShare = 0.5;

double PerSecond(uint64_t count, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

// What a server admits of one connection unless it is told otherwise
// (--max_concurrent_streams of steadystate-server).
constexpr uint64_t kUsualCallsPerConnection = 1024;

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

// Calls beyond what a server admits of a connection wait within the client, and
// nothing of gRPC's says so.
void AddCallRemark(const LoadResult& result,
                   std::vector<std::string>& remarks) {
  const LoadOptions& options = result.options;
  const bool steps = options.rpc == LoadRpc::kStep;
  const uint64_t calls =
      steps ? options.streams
            : std::min<uint64_t>(result.peak_calls, options.sessions);
  const uint64_t room = options.connections * kUsualCallsPerConnection;
  if (calls <= room) return;
  const uint64_t wanted =
      (calls + kUsualCallsPerConnection - 1) / kUsualCallsPerConnection;
  std::string measured;
  if (result.tally.outside_server.count() > 0) {
    measured = absl::StrFormat(
        "; half of the first tokens took at least %.1f ms longer here than at "
        "the server",
        absl::ToDoubleMilliseconds(
            absl::FromChrono(result.tally.outside_server.Quantile(0.5))));
  }
  remarks.push_back(absl::StrCat(
      calls, " calls were open at once over ", options.connections,
      " connection", options.connections == 1 ? "" : "s", "; a server admits ",
      kUsualCallsPerConnection,
      " of each unless --max_concurrent_streams says otherwise, so up to ",
      calls - room, " waited within this client before they were sent; give ",
      "--connections ", wanted, measured));
}

void AddServerRemarks(const LoadResult& result,
                      std::vector<std::string>& remarks) {
  if (!result.server || result.server->missed == 0) return;
  remarks.push_back(absl::StrCat(
      "the server's metrics could not be read ", result.server->missed,
      " times; what is said of its processors and queue leaves that out"));
}

}  // namespace

double TokensPerSecond(const LoadResult& result) {
  return PerSecond(result.tally.window_drawn_tokens, result.window);
}

double PromptTokensPerSecond(const LoadResult& result) {
  return PerSecond(result.tally.window_prompt_tokens, result.window);
}

double RequestsPerSecond(const LoadResult& result) {
  return PerSecond(result.tally.window_completed, result.window);
}

double Goodput(const LoadResult& result) {
  return PerSecond(result.tally.window_good, result.window);
}

uint64_t RequestsDue(const LoadResult& result) {
  if (result.options.open_loop()) return result.arrivals;
  // Those without an answer count as requests there.
  return result.tally.request.count() + result.tally.window_failed;
}

double SloAttainment(const LoadResult& result) {
  const uint64_t due = RequestsDue(result);
  if (due == 0) return 0;
  return static_cast<double>(result.tally.window_good) /
         static_cast<double>(due);
}

bool MeetsSlo(const LoadResult& result) {
  return result.options.slo.empty() ||
         SloAttainment(result) >= result.options.slo.attainment;
}

std::vector<std::string> Objections(const LoadResult& result) {
  std::vector<std::string> objections;
  if (result.sessions_created < result.options.sessions) {
    objections.push_back(absl::StrCat(
        "of ", result.options.sessions, " sessions ", result.sessions_created,
        " could be created, so this was another load than was asked for",
        result.refusal.ok() ? "" : ": ", result.refusal.message()));
  }
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
  AddCallRemark(result, remarks);
  AddServerRemarks(result, remarks);
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
  if (result.sessions_left < result.sessions_created) {
    remarks.push_back(absl::StrCat("of ", result.sessions_created, " sessions ",
                                   result.sessions_left,
                                   " were in use at the end"));
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
