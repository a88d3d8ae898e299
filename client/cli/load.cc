// `steadystate load`: puts load on a server and reports how it copes.

#include "client/load/load.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/load_report.h"
#include "client/cli/output.h"

namespace steadystate::client {
namespace {

// A duration that may be 0.
OptionTarget DurationOrZero(absl::Duration* target) {
  return [target](absl::string_view text) -> absl::Status {
    if (absl::ParseDuration(text, target)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a duration such as 500ms, 10s or 0"));
  };
}

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
  absl::Status ReadRpc(absl::string_view text);
  absl::Status Print(const LoadResult& result) const;
  absl::Status Verdict(const LoadResult& result) const;

  LoadOptions options_;
  std::optional<uint64_t> sessions_;
  std::optional<uint64_t> streams_;
  std::optional<uint64_t> prompt_tokens_;
  std::optional<uint64_t> generate_tokens_;
  std::optional<double> rate_;
  std::optional<uint64_t> seed_;
  bool json_ = false;
  bool csv_ = false;
};

CommandText LoadCommand::text() const {
  return {
      "load", "", "Puts load on a server and reports how it copes",
      "Creates sessions, sends requests on them for a time, and reports "
      "throughput, latencies and errors. A request is a prompt of random "
      "tokens, and the tokens that are drawn after it. In a closed loop "
      "(--rate "
      "0) each session begins its next request when the last one has ended, so "
      "a server that stalls is asked less. In an open loop requests arrive as "
      "from users who know nothing of each other, a Poisson process of --rate, "
      "and latency counts from the time at which a request was to be sent, "
      "also if it had to wait for a free session. Latencies and rates leave "
      "the warm-up out; the counts of the whole run equal what the server adds "
      "to steadystate_tokens_total and steadystate_errors_total for every "
      "request that it answered; calls that the tester itself gave up are "
      "listed apart. With StreamStep the server counts tokens that are fed "
      "back as prompt. "
      "Ctrl-C ends a run early and still prints the report; sessions are "
      "deleted in any case. A run whose figures do not say what they seem to "
      "is "
      "marked INVALID, which does not change the exit code. That is 1 if no "
      "request was completed, unless you ended the run before, or no session "
      "was left.",
      "  steadystate load --sessions 64 --streams 4\n"
      "  steadystate load --sessions 64 --rpc generate --duration 1m\n"
      "  steadystate load --sessions 256 --streams 8 --rate 200 --json\n"
      "  steadystate load --prompt_tokens 4096 --generate_tokens 1 --csv\n"
      "  steadystate load --sessions 16 --rate 5 --duration 0\n"};
}

OptionTable LoadCommand::options() {
  return {
      {"sessions", "N", "Sessions. Default 8.", &sessions_},
      {"streams", "M",
       "StreamStep streams that carry them, N/M each, over one connection. "
       "Default 1.",
       &streams_},
      {"rpc", "step|generate",
       "step: StreamStep, one step for each token. generate: one Generate call "
       "for each request; the server draws. Default step.",
       [this](absl::string_view text) { return ReadRpc(text); }},
      {"prompt_tokens", "N", "Tokens of a prompt. Default 16.",
       &prompt_tokens_},
      {"generate_tokens", "N", "Tokens drawn after a prompt. Default 32.",
       &generate_tokens_},
      {"rate", "R",
       "Open loop: requests per second of all sessions together. Default 0: "
       "closed loop.",
       &rate_},
      {"warmup", "DURATION", "Before measuring begins. Default 2s.",
       DurationOrZero(&options_.warmup)},
      {"duration", "DURATION",
       "How long to measure. 0: until SIGINT or SIGTERM, which is then no "
       "failure. Default 10s.",
       DurationOrZero(&options_.duration)},
      {"drain", "DURATION",
       "How long requests that are under way may go on at the end before they "
       "are cut. Default 10s.",
       DurationOrZero(&options_.drain)},
      {"max_send_lag", "DURATION",
       "Open loop: the run is INVALID if the tester itself sends more than 1 % "
       "of the requests later than this. Default 1ms.",
       DurationOrZero(&options_.max_send_lag)},
      {"seed", "N",
       "Of prompts, arrivals and sampling: the same seed asks the same. "
       "Default 1.",
       &seed_},
      {"json", "", "Prints the report as JSON.", &json_},
      {"csv", "", "Prints the report as a line of names and one of values.",
       &csv_},
  };
}

absl::Status LoadCommand::ReadRpc(absl::string_view text) {
  if (text != "step" && text != "generate") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is neither step nor generate"));
  }
  options_.rpc = text == "step" ? LoadRpc::kStep : LoadRpc::kGenerate;
  return absl::OkStatus();
}

absl::Status LoadCommand::Prepare(const std::vector<std::string>& arguments) {
  if (!arguments.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected '", arguments[0], "'"));
  }
  if (json_ && csv_) {
    return absl::InvalidArgumentError("give only one of --json and --csv");
  }
  if (streams_ && options_.rpc == LoadRpc::kGenerate) {
    return absl::InvalidArgumentError(
        "--streams is for --rpc step; with generate every request is a stream "
        "of its own, so --sessions says how many there are at once");
  }
  options_.sessions = sessions_.value_or(options_.sessions);
  options_.streams = streams_.value_or(options_.streams);
  options_.prompt_tokens = prompt_tokens_.value_or(options_.prompt_tokens);
  options_.generate_tokens =
      generate_tokens_.value_or(options_.generate_tokens);
  options_.rate = rate_.value_or(options_.rate);
  options_.seed = seed_.value_or(options_.seed);
  return Validate(options_);
}

absl::Status LoadCommand::Run(const Connection& connection) {
  if (options_.rpc == LoadRpc::kStep &&
      connection.call.timeout != absl::InfiniteDuration()) {
    return absl::InvalidArgumentError(
        "--timeout is for --rpc generate, where it limits each request; a "
        "stream of steps has no such limit, but --duration and --drain");
  }
  LoadProgressBar bar(options_);
  const auto result =
      RunLoad(connection.client, connection.call, options_,
              [&bar](const LoadProgress& progress) { bar.Update(progress); });
  bar.Erase();
  if (!result.ok()) return result.status();
  const absl::Status printed = Print(*result);
  return printed.ok() ? Verdict(*result) : printed;
}

absl::Status LoadCommand::Print(const LoadResult& result) const {
  if (json_) return PrintJson(FormatLoadJson(result));
  return client::Print(csv_ ? FormatLoadCsv(result) : FormatLoadText(result));
}

absl::Status LoadCommand::Verdict(const LoadResult& result) const {
  const Tally& tally = result.tally;
  if (result.sessions_created == 0) {
    return absl::FailedPreconditionError("no session could be created");
  }
  if (result.sessions_left == 0) {
    return absl::FailedPreconditionError("no session was left to go on with");
  }
  if (tally.completed == 0 && (tally.failed > 0 || !result.interrupted)) {
    return absl::FailedPreconditionError("no request was completed");
  }
  if (result.interrupted && options_.duration > absl::ZeroDuration()) {
    return absl::CancelledError("interrupted");
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Command> MakeLoadCommand() {
  return std::make_unique<LoadCommand>();
}

}  // namespace steadystate::client
