#include "client/load/load_options.h"

#include "absl/strings/str_cat.h"
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

}  // namespace steadystate::client
