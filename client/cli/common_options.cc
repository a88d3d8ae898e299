#include "client/cli/common_options.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "steadystate/address.h"

namespace steadystate::client {
namespace {

constexpr char kVariable[] = "STEADYSTATE_ADDRESS";

}  // namespace

void CommonOptions::AppendTo(OptionTable& table, const Command& command) {
  if (command.needs_server()) {
    table.push_back({"address", "HOST:PORT",
                     "The server. Default: the environment variable "
                     "STEADYSTATE_ADDRESS, or 127.0.0.1:50051.",
                     &address, 'a'});
    const bool calls_last =
        command.default_timeout() == absl::InfiniteDuration();
    table.push_back(
        {"timeout", "DURATION",
         calls_last
             ? "Gives up if one call, or connecting, takes longer, such as "
               "30s; 0: never. Default: what takes the server no time 10s, "
               "connecting 5s, the rest for as long as the server gives signs "
               "of life."
             : "Gives up if one call, or connecting, takes longer; 0: never. "
               "Default 10s; health and connecting 5s.",
         [this](absl::string_view text) { return ReadTimeout(text); }});
  }
  table.push_back({"help", "", "Shows this text.", &help, 'h'});
}

absl::StatusOr<std::string> CommonOptions::ServerAddress() const {
  const char* const variable = std::getenv(kVariable);
  absl::string_view given = kDefaultAddress;
  absl::string_view from = "";
  if (address) {
    given = *address;
    from = "--address: ";
  } else if (variable != nullptr && *variable != '\0') {
    given = variable;
    from = "STEADYSTATE_ADDRESS: ";
  }
  const auto read = ReadAddress(given);
  if (read.ok()) return read;
  return absl::InvalidArgumentError(
      absl::StrCat(from, read.status().message()));
}

absl::Status CommonOptions::ReadTimeout(absl::string_view text) {
  const auto time = ParseTime(text);
  if (!time.ok()) return time.status();
  if (*time < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is below 0; 0 means never, 10s ten seconds"));
  }
  timeout = *time == absl::ZeroDuration() ? absl::InfiniteDuration() : *time;
  return absl::OkStatus();
}

}  // namespace steadystate::client
