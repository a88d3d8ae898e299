#include "client/load/load_options.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace steadystate::client {
namespace {

constexpr uint64_t kMaxSessions = 1000000;
constexpr uint64_t kMaxStreams = 1024;
constexpr uint64_t kMaxConnections = 256;
// As many as one step may have.
constexpr uint64_t kMaxPromptTokens = uint64_t{1} << 20;
constexpr uint64_t kMaxGenerateTokens = 1000000000;

absl::Status Check(absl::string_view name, uint64_t value, uint64_t least,
                   uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", name, " is ", value, "; it must be ", least, " to ", most));
}

absl::Status Check(absl::string_view name, const Lengths& lengths,
                   uint64_t most) {
  if (lengths.least() >= 1 && lengths.most() <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", name, " is ", lengths.ToString(), "; it must be 1 to ", most));
}

absl::Status Check(absl::string_view name, absl::Duration value) {
  if (value >= absl::ZeroDuration() && value <= kMaxLoadTime) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, " is ", absl::FormatDuration(value),
                   "; it must be 0 to ", absl::FormatDuration(kMaxLoadTime)));
}

absl::Status CheckRate(double rate) {
  if (rate >= 0 && rate <= kMaxRequestRate) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--rate is ", rate, "; it must be 0 (closed loop) to ",
      static_cast<uint64_t>(kMaxRequestRate), " requests per second"));
}

absl::Status CheckAttainment(double attainment) {
  if (attainment >= 0 && attainment <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--slo_attainment is ", attainment, "; it must be 0 to 1, such as 0.99"));
}

// What contradicts each other.
absl::Status CheckTogether(const LoadOptions& options) {
  if (options.streams > options.sessions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--streams is ", options.streams, ", more than the ", options.sessions,
        " of --sessions; a stream carries at least one session"));
  }
  if (options.connections > options.calls()) {
    const bool steps = options.rpc == LoadRpc::kStep;
    return absl::InvalidArgumentError(absl::StrCat(
        "--connections is ", options.connections, ", more than the ",
        options.calls(), " of --", steps ? "streams" : "sessions",
        "; a connection carries at least one ", steps ? "stream" : "session"));
  }
  const int open = (options.rate > 0 ? 1 : 0) +
                   (options.stages.empty() ? 0 : 1) +
                   (options.trace == nullptr ? 0 : 1);
  if (open > 1) {
    return absl::InvalidArgumentError(
        "give only one of --rate, --stages and --trace");
  }
  if (options.arrivals == ArrivalProcess::kConstant && options.rate == 0 &&
      options.stages.empty()) {
    return absl::InvalidArgumentError(
        "--arrivals is for --rate and --stages; without them each session "
        "begins its next request when the last one has ended");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const LoadOptions& options) {
  for (const absl::Status& status :
       {Check("sessions", options.sessions, 1, kMaxSessions),
        Check("streams", options.streams, 1, kMaxStreams),
        Check("connections", options.connections, 1, kMaxConnections),
        Check("prompt_tokens", options.prompt_tokens, kMaxPromptTokens),
        Check("generate_tokens", options.generate_tokens, kMaxGenerateTokens),
        CheckRate(options.rate), Check("warmup", options.warmup),
        Check("duration", options.duration), Check("drain", options.drain),
        Check("max_send_lag", options.max_send_lag),
        CheckAttainment(options.slo.attainment), CheckTogether(options)}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParsePrompts(absl::string_view text) {
  std::vector<std::string> prompts;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(line);
    if (line.empty()) continue;
    if (prompts.size() == kMaxPrompts) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMaxPrompts, " lines"));
    }
    prompts.emplace_back(line);
  }
  if (prompts.empty()) return absl::InvalidArgumentError("no prompts");
  return prompts;
}

}  // namespace steadystate::client
