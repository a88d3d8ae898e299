// `steadystate load`: puts load on a server and reports how it copes.

#include "client/load/load.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/load_figures.h"
#include "client/cli/load_flags.h"
#include "client/cli/load_html.h"
#include "client/cli/load_report.h"
#include "client/cli/load_sweep_html.h"
#include "client/cli/load_text.h"
#include "client/cli/output.h"

namespace steadystate::client {
namespace {

// Shows how far a run has come.
class LoadProgressBar {
 public:
  explicit LoadProgressBar(const LoadOptions& options)
      : options_(options),
        creating_("create", "sessions", options.sessions,
                  ProgressBar::StandardError()),
        bar_("load", "s", Total(options), ProgressBar::StandardError()) {}

  void Update(const LoadProgress& progress) {
    if (progress.created) {
      creating_.Update(*progress.created);
      return;
    }
    creating_.Erase();
    const std::string note =
        absl::StrFormat("%s%.0f tokens/s  %d errors",
                        progress.elapsed < options_.warmup ? "warm-up  " : "",
                        progress.tokens_per_second, progress.errors);
    bar_.Update(static_cast<size_t>(absl::ToInt64Seconds(progress.elapsed)),
                note);
  }

  void Erase() {
    creating_.Erase();
    bar_.Erase();
  }

 private:
  static size_t Total(const LoadOptions& options) {
    if (options.duration == absl::ZeroDuration()) return Progress::kEndless;
    return static_cast<size_t>(
        absl::ToInt64Seconds(options.warmup + options.duration));
  }

  const LoadOptions& options_;
  ProgressBar creating_;
  ProgressBar bar_;
};

class LoadCommand : public Command {
 public:
  CommandText text() const override;
  OptionTable options() override;
  absl::Duration default_timeout() const override {
    return absl::InfiniteDuration();
  }
  absl::Status Prepare(const std::vector<std::string>& arguments) override;
  absl::Status Run(const Connection& connection) override;

 private:
  absl::Status RunOne(const Connection& connection);
  absl::Status RunSeveral(const Connection& connection);
  absl::Status Print(const LoadResult& result) const;
  absl::Status PrintSweep(const SweepResult& result) const;
  absl::Status WriteHtml(const std::string& page) const;

  LoadFlags flags_;
  LoadOrder order_;
  std::optional<std::string> html_;
  bool json_ = false;
  bool csv_ = false;
};

CommandText LoadCommand::text() const {
  return {
      "load", "", "Puts load on a server and reports how it copes",
      "Creates sessions, sends requests on them for a time, and reports "
      "throughput, latencies and errors. A request is a prompt, and the tokens "
      "that are drawn after it. In a closed loop, without --rate, --stages or "
      "--trace, each session begins its next request when the last one has "
      "ended, so a server that stalls is asked less. In an open loop requests "
      "arrive by themselves, and latency counts from the time at which a "
      "request was to be sent, also if it had to wait for a free session. "
      "Latencies and rates leave the warm-up out; the counts of the whole run "
      "equal what the server adds to steadystate_tokens_total and "
      "steadystate_errors_total for every request that it answered; calls "
      "that the tester itself gave up are listed apart. With StreamStep the "
      "server counts tokens that are fed back as prompt. Ctrl-C ends a run "
      "early and still prints the report; sessions are deleted in any case, "
      "and end with the tester if it is killed. A "
      "run whose figures do not say what they seem to is marked INVALID. The "
      "exit code is 1 if a run is INVALID or misses --slo, unless it had no "
      "end "
      "(--duration 0) and you ended it, if a sweep finds no knee, if no "
      "request "
      "was completed, unless you ended the run before, or if no session was "
      "left.",
      "  steadystate load --sessions 64 --streams 4\n"
      "  steadystate load --sessions 64 --rpc generate --duration 1m\n"
      "  steadystate load --sessions 256 --streams 8 --rate 200 --json\n"
      "  steadystate load --rate 20 --slo ttft:200ms,tpot:20ms\n"
      "  steadystate load --sessions 64 --sweep rate:auto --html report.html\n"
      "  steadystate load --stages 10s:5,30s:20,0s:5,20s:5 --metrics :9464\n"
      "  steadystate load --prompt_tokens lognormal:200:150 --rate 5\n"
      "  steadystate load --prompt_tokens 4096 --generate_tokens 1 --csv\n"
      "  steadystate load --sessions 16 --rate 5 --duration 0\n"};
}

OptionTable LoadCommand::options() {
  OptionTable table;
  flags_.AppendTo(table);
  table.push_back({"json", "", "Prints the report as JSON.", &json_});
  table.push_back({"csv", "",
                   "Prints the report as a line of names and one of values for "
                   "each run.",
                   &csv_});
  table.push_back({"html", "FILE",
                   "Writes the report as a page with plots, too: one file that "
                   "needs nothing else.",
                   &html_});
  return table;
}

absl::Status LoadCommand::Prepare(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[0], "'"));
  }
  if (json_ && csv_) {
    return absl::InvalidArgumentError("give only one of --json and --csv");
  }
  auto order = flags_.Read();
  if (!order.ok()) return order.status();
  order_ = *std::move(order);
  if (html_ && (html_->empty() || *html_ == "-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--html '", *html_,
                     "' names no file: give one, such as report.html; --json "
                     "and --csv go to standard output"));
  }
  // Rather than when the run is over.
  return html_ ? CheckWritable(*html_) : absl::OkStatus();
}

absl::Status LoadCommand::Run(const Connection& connection) {
  if (order_.options.rpc == LoadRpc::kStep &&
      connection.call.timeout != absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        "--timeout is for --rpc generate, where it limits each request; a "
        "stream of steps has no such limit, but --duration and --drain");
  }
  return order_.several() ? RunSeveral(connection) : RunOne(connection);
}

absl::StatusOr<LoadResult> RunWithBar(const Connection& connection,
                                      const LoadOptions& options) {
  LoadProgressBar bar(options);
  return RunLoad(
      connection.client, connection.call, options,
      [&bar](const LoadProgress& progress) { bar.Update(progress); });
}

// What a run that went as its options wanted comes to.
absl::Status RunVerdict(const LoadResult& result) {
  const Tally& tally = result.tally;
  if (result.sessions_created == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no session could be created",
        result.refusal.ok() ? ""
                            : absl::StrCat(": ", Described(result.refusal))));
  }
  if (result.going_away) {
    return absl::FailedPreconditionError(
        "the server said that it was about to shut down, which ended the run");
  }
  if (result.sessions_left == 0) {
    return absl::FailedPreconditionError("no session was left to go on with");
  }
  if (tally.completed == 0 && (tally.failed > 0 || !result.interrupted)) {
    return absl::FailedPreconditionError("no request was completed");
  }
  if (result.interrupted) {
    // What cannot end by itself is ended by its user, in the middle of
    // requests.
    return result.options.duration > absl::ZeroDuration()
               ? absl::CancelledError("interrupted")
               : absl::OkStatus();
  }
  const auto objections = Objections(result);
  if (!objections.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run is INVALID: ", objections[0]));
  }
  if (!MeetsSlo(result)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the SLO was missed: ", DescribeSlo(result)));
  }
  return absl::OkStatus();
}

// What kept the lowest value of a sweep without a knee from being one, and what
// may help.
std::string WhyTheLowestDidNotHold(const SweepResult& result) {
  const SweepPoint& lowest = result.points[0];
  for (const LoadResult& run : lowest.runs) {
    const absl::Status verdict = RunVerdict(run);
    if (verdict.ok()) continue;
    return absl::StrCat("At ", VariableName(result.spec.variable), " ",
                        lowest.value, ", the lowest, ", verdict.message(),
                        Objections(run).empty() ? "; try lower ones" : "");
  }
  return "Try other ones";
}

// The same of several runs: a sweep goes where the server cannot follow.
absl::Status SweepVerdict(const SweepResult& result) {
  if (result.interrupted) return absl::CancelledError("interrupted");
  if (!result.complete) {
    const SweepPoint* const last =
        result.points.empty() ? nullptr : &result.points.back();
    const LoadResult& run =
        last == nullptr ? *result.calibration : last->runs.back();
    const absl::Status verdict = RunVerdict(run);
    return absl::FailedPreconditionError(absl::StrCat(
        "not every run was made; the last one: ", verdict.message()));
  }
  if (result.spec.variable != SweepVariable::kNothing) {
    if (result.knee) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("no knee was found among these values; it would be ",
                     KneeRule(result), ". ", WhyTheLowestDidNotHold(result)));
  }
  for (const LoadResult& run : result.points[0].runs) {
    const absl::Status verdict = RunVerdict(run);
    if (!verdict.ok()) return verdict;
  }
  return absl::OkStatus();
}

absl::Status LoadCommand::RunOne(const Connection& connection) {
  const auto result = RunWithBar(connection, order_.options);
  if (!result.ok()) return result.status();
  const absl::Status printed = Print(*result);
  return printed.ok() ? RunVerdict(*result) : printed;
}

absl::Status LoadCommand::RunSeveral(const Connection& connection) {
  const auto result = RunSweep(order_.options, order_.sweep, order_.repeat,
                               [&](const LoadOptions& options) {
                                 return RunWithBar(connection, options);
                               });
  if (!result.ok()) return result.status();
  const absl::Status printed = PrintSweep(*result);
  return printed.ok() ? SweepVerdict(*result) : printed;
}

absl::Status LoadCommand::WriteHtml(const std::string& page) const {
  return html_ ? WriteFile(*html_, page) : absl::OkStatus();
}

absl::Status LoadCommand::Print(const LoadResult& result) const {
  const absl::Status printed = json_  ? PrintJson(FormatLoadJson(result))
                               : csv_ ? client::Print(FormatLoadCsv(result))
                                      : client::Print(FormatLoadText(result));
  return printed.ok() && html_ ? WriteHtml(FormatLoadHtml(result)) : printed;
}

absl::Status LoadCommand::PrintSweep(const SweepResult& result) const {
  const absl::Status printed = json_  ? PrintJson(FormatSweepJson(result))
                               : csv_ ? client::Print(FormatSweepCsv(result))
                                      : client::Print(FormatSweepText(result));
  return printed.ok() && html_ ? WriteHtml(FormatSweepHtml(result)) : printed;
}

}  // namespace

std::unique_ptr<Command> MakeLoadCommand() {
  return std::make_unique<LoadCommand>();
}

}  // namespace steadystate::client
