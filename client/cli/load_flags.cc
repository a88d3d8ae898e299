#include "client/cli/load_flags.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/session.h"
#include "client/load/http_get.h"
#include "client/options/utf8.h"

namespace steadystate::client {
namespace {

constexpr size_t kMaxLoadFileBytes = size_t{32} << 20;
constexpr uint64_t kMaxRepeat = 10;

// What `Parse` makes of the text.
template <typename T, typename F>
OptionTarget Parsed(T* target, F parse) {
  return [target, parse](absl::string_view text) -> absl::Status {
    auto value = parse(text);
    if (!value.ok()) return value.status();
    *target = *std::move(value);
    return absl::OkStatus();
  };
}

absl::StatusOr<std::string> CheckedUrl(absl::string_view text) {
  const auto address = ParseHttpAddress(text);
  if (!address.ok()) return address.status();
  return std::string(text);
}

// As it would be checked where it is given as a prompt.
absl::Status CheckLines(absl::string_view text) {
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::Status checked = CheckUtf8(line);
    if (checked.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("line ", number, ": ", checked.message()));
  }
  return absl::OkStatus();
}

absl::Status Of(absl::string_view file, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(file, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::string> ReadShortFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(
      std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  std::string content;
  std::array<char, 65536> piece;
  while (const size_t got =
             std::fread(piece.data(), 1, piece.size(), file.get())) {
    content.append(piece.data(), got);
    if (content.size() > kMaxLoadFileBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " has more than ", kMaxLoadFileBytes, " bytes"));
    }
  }
  if (std::ferror(file.get()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return content;
}

void LoadFlags::AppendTo(OptionTable& table) {
  AppendConnections(table);
  AppendRequests(table);
  AppendArrivals(table);
  AppendTimes(table);
  AppendAims(table);
}

void LoadFlags::AppendConnections(OptionTable& table) {
  table.push_back({"sessions", "N", "Sessions. Default 8.", &sessions_});
  table.push_back({"streams", "M",
                   "StreamStep streams that carry them, N/M each. Default 1.",
                   &streams_});
  table.push_back(
      {"connections", "C",
       "Connections that streams, or with --rpc generate sessions, are shared "
       "out to. Default 1.",
       &connections_});
  table.push_back(
      {"rpc", "step|generate",
       "step: StreamStep, one step for each token. generate: one Generate call "
       "for each request; the server draws. Default step.",
       [this](absl::string_view text) { return ReadRpc(text); }});
  table.push_back(
      {"durability", "none|shutdown|log|sync",
       "Sessions like those of applications, which a server's store keeps "
       "thus; if the tester is killed they expire after 5 minutes. Default: "
       "ephemeral sessions, which are never stored and end with the tester.",
       [this](absl::string_view text) -> absl::Status {
         auto durability = ParseDurability(text);
         if (!durability.ok()) return durability.status();
         options_.durability = *durability;
         return absl::OkStatus();
       }});
}

void LoadFlags::AppendRequests(OptionTable& table) {
  table.push_back(
      {"prompt_tokens", "LENGTHS",
       "Random tokens of a prompt: a number, uniform:LEAST:MOST, or "
       "lognormal:MEAN:STDDEV[:MOST], by default at most ten times MEAN. "
       "Default 16.",
       [this](absl::string_view text) -> absl::Status {
         auto lengths = Lengths::Parse(text);
         if (!lengths.ok()) return lengths.status();
         options_.prompt_tokens = *std::move(lengths);
         prompt_tokens_given_ = true;
         return absl::OkStatus();
       }});
  table.push_back({"prompt_file", "FILE",
                   "Prompts in place of random tokens, one to a line, taken in "
                   "turn. The server needs a tokenizer.",
                   &prompt_file_});
  table.push_back({"generate_tokens", "LENGTHS",
                   "Tokens drawn after a prompt, as --prompt_tokens. Default "
                   "32.",
                   Parsed(&options_.generate_tokens, Lengths::Parse)});
}

void LoadFlags::AppendArrivals(OptionTable& table) {
  table.push_back(
      {"rate", "R",
       "Open loop: requests per second of all sessions together. Default 0: "
       "closed loop.",
       &rate_});
  table.push_back(
      {"stages", "D1:R1,D2:R2,...",
       "Open loop: the rate goes evenly from 0 to R1 within D1, then to R2 "
       "within D2, and so on; at once if a duration is 0s. The run lasts as "
       "long as the stages, --warmup (then 0 by default) included.",
       Parsed(&options_.stages, ParseStages)});
  table.push_back(
      {"trace", "FILE",
       "Open loop: requests arrive at the times of a file, seconds since the "
       "beginning, one to a line. The run lasts until the last one, --warmup "
       "(then 0 by default) included, unless --duration is given.",
       &trace_});
  table.push_back(
      {"arrivals", "poisson|constant",
       "How requests of --rate and --stages arrive: as from users who know "
       "nothing of each other, or at equal distances. Default poisson.",
       [this](absl::string_view text) { return ReadArrivals(text); }});
}

void LoadFlags::AppendTimes(OptionTable& table) {
  table.push_back({"warmup", "DURATION", "Before measuring begins. Default 2s.",
                   Parsed(&warmup_, ParseTime)});
  table.push_back(
      {"duration", "DURATION",
       "How long to measure. 0: until SIGINT, SIGTERM or SIGHUP, which is then "
       "no failure. Default 10s.",
       Parsed(&duration_, ParseTime)});
  table.push_back(
      {"drain", "DURATION",
       "How long requests that are under way may go on at the end before they "
       "are cut. Default 10s.",
       Parsed(&options_.drain, ParseTime)});
  table.push_back(
      {"max_send_lag", "DURATION",
       "Open loop: the run is INVALID if the tester itself sends more than 1 % "
       "of the requests later than this. Default 1ms.",
       Parsed(&max_send_lag_, ParseTime)});
}

void LoadFlags::AppendAims(OptionTable& table) {
  table.push_back(
      {"slo", "ttft:T,tpot:T,e2e:T",
       "What a good request takes at most, one of them or more: time to first "
       "token, time per output token after it, whole request. The report says "
       "goodput, the rate of good requests.",
       Parsed(&options_.slo, ParseSlo)});
  table.push_back(
      {"slo_attainment", "SHARE",
       "The exit code is 1 if a smaller share of the requests is good. Default "
       "0.99.",
       &attainment_});
  table.push_back(
      {"sweep", "rate:R1,R2,...|sessions:N1,N2,...|rate:auto|sessions:auto",
       "One run for each value, and the knee: how far the server can go. "
       "rate:auto takes shares, 20 % to 110 %, of what a closed loop of all "
       "sessions comes to; sessions:auto doubles sessions for as long as that "
       "helps.",
       Parsed(&sweep_, ParseSweep)});
  table.push_back(
      {"repeat", "N",
       "Makes each run N times, at most 10, with seeds of their own, and says "
       "how sure the means are. Default 1.",
       &repeat_});
  table.push_back(
      {"metrics", "URL",
       "The server's metrics page, such as :9464 or http://HOST:9464/metrics: "
       "reports its processors and its queue beside the tester's.",
       Parsed(&options_.metrics_url, CheckedUrl)});
  table.push_back(
      {"seed", "N",
       "Of prompts, lengths, arrivals and sampling: the same seed asks the "
       "same. Default 1.",
       &seed_});
}

absl::Status LoadFlags::ReadRpc(absl::string_view text) {
  if (text != "step" && text != "generate") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is neither step nor generate"));
  }
  options_.rpc = text == "step" ? LoadRpc::kStep : LoadRpc::kGenerate;
  return absl::OkStatus();
}

absl::Status LoadFlags::ReadArrivals(absl::string_view text) {
  if (text != "poisson" && text != "constant") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is neither poisson nor constant"));
  }
  options_.arrivals =
      text == "poisson" ? ArrivalProcess::kPoisson : ArrivalProcess::kConstant;
  return absl::OkStatus();
}

absl::Status LoadFlags::ReadFiles(LoadOptions& options) const {
  if (prompt_file_) {
    const auto text = ReadShortFile(*prompt_file_);
    if (!text.ok()) return text.status();
    const absl::Status checked = CheckLines(*text);
    if (!checked.ok()) return Of(*prompt_file_, checked);
    auto prompts = ParsePrompts(*text);
    if (!prompts.ok()) return Of(*prompt_file_, prompts.status());
    options.prompts =
        std::make_shared<const std::vector<std::string>>(*std::move(prompts));
  }
  if (trace_) {
    const auto text = ReadShortFile(*trace_);
    if (!text.ok()) return text.status();
    auto times = ParseTrace(*text);
    if (!times.ok()) return Of(*trace_, times.status());
    options.trace =
        std::make_shared<const std::vector<std::chrono::nanoseconds>>(
            *std::move(times));
  }
  return absl::OkStatus();
}

// Stages and traces know how long they are.
absl::Status LoadFlags::ReadTimes(LoadOptions& options) const {
  const bool has_end = !options.stages.empty() || options.trace != nullptr;
  options.warmup =
      warmup_.value_or(has_end ? absl::ZeroDuration() : options.warmup);
  options.duration = duration_.value_or(options.duration);
  if (!has_end) return absl::OkStatus();
  if (!options.stages.empty() && duration_) {
    return absl::InvalidArgumentError(
        "--duration is how long --stages take; give only one of them");
  }
  if (duration_) return absl::OkStatus();
  // So that the last arrival is within.
  const absl::Duration end =
      options.trace != nullptr
          ? absl::FromChrono(options.trace->back()) + absl::Milliseconds(1)
          : TotalDuration(options.stages);
  if (options.warmup >= end) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--warmup is ", absl::FormatDuration(options.warmup),
        ", and the run itself takes no more than ", absl::FormatDuration(end)));
  }
  options.duration = end - options.warmup;
  return absl::OkStatus();
}

absl::Status LoadFlags::CheckSweep() const {
  const uint64_t repeat = repeat_.value_or(1);
  if (repeat < 1 || repeat > kMaxRepeat) {
    return absl::InvalidArgumentError(
        absl::StrCat("--repeat is ", repeat, "; it must be 1 to ", kMaxRepeat));
  }
  const bool several = sweep_.variable != SweepVariable::kNothing || repeat > 1;
  if (several && duration_ == absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "--duration 0 never ends, so --sweep and --repeat need another one");
  }
  if (sweep_.variable == SweepVariable::kRate &&
      (rate_ || !options_.stages.empty() || trace_)) {
    return absl::InvalidArgumentError(
        "--sweep rate gives the rate: leave --rate, --stages and --trace out");
  }
  if (sweep_.variable == SweepVariable::kSessions && sessions_) {
    return absl::InvalidArgumentError(
        "--sweep sessions gives their number: leave --sessions out");
  }
  return absl::OkStatus();
}

// What would have no effect.
absl::Status LoadFlags::CheckNeeded(const LoadOptions& options) const {
  if (attainment_ && options.slo.empty()) {
    return absl::InvalidArgumentError(
        "--slo_attainment is for --slo, which says what a good request is");
  }
  if (max_send_lag_ && !options.open_loop() &&
      sweep_.variable != SweepVariable::kRate) {
    return absl::InvalidArgumentError(
        "--max_send_lag is for requests that arrive by themselves: give "
        "--rate, --stages, --trace or --sweep rate as well");
  }
  return absl::OkStatus();
}

absl::StatusOr<LoadOrder> LoadFlags::Read() const {
  if (streams_ && options_.rpc == LoadRpc::kGenerate) {
    return absl::InvalidArgumentError(
        "--streams is for --rpc step; with generate every request is a stream "
        "of its own, so --sessions says how many there are at once");
  }
  if (prompt_file_ && prompt_tokens_given_) {
    return absl::InvalidArgumentError(
        "give only one of --prompt_tokens and --prompt_file");
  }
  LoadOptions options = options_;
  options.sessions = sessions_.value_or(options.sessions);
  options.streams = streams_.value_or(options.streams);
  options.connections = connections_.value_or(options.connections);
  options.rate = rate_.value_or(options.rate);
  options.max_send_lag = max_send_lag_.value_or(options.max_send_lag);
  options.slo.attainment = attainment_.value_or(options.slo.attainment);
  options.seed = seed_.value_or(options.seed);
  for (const absl::Status& status :
       {CheckSweep(), ReadFiles(options), ReadTimes(options),
        CheckNeeded(options)}) {
    if (!status.ok()) return status;
  }
  LoadOptions checked = options;
  if (sweep_.variable == SweepVariable::kRate) {
    checked.rate = sweep_.values.empty() ? 1 : sweep_.values.back();
  }
  if (sweep_.variable == SweepVariable::kSessions) {
    checked.sessions = sweep_.values.empty()
                           ? kMostAutomaticSessions
                           : static_cast<uint64_t>(sweep_.values.back());
  }
  const absl::Status valid = Validate(checked);
  if (!valid.ok()) return valid;
  return LoadOrder{std::move(options), sweep_, repeat_.value_or(1)};
}

}  // namespace steadystate::client
