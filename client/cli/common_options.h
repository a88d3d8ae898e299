#ifndef STEADYSTATE_CLIENT_CLI_COMMON_OPTIONS_H_
#define STEADYSTATE_CLIENT_CLI_COMMON_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/command.h"
#include "client/options/options.h"

namespace steadystate::client {

inline constexpr absl::Duration kConnectTimeout = absl::Seconds(5);

// What every command has beside its own options. Must not be moved once a table
// points at it.
class CommonOptions {
 public:
  CommonOptions() = default;
  CommonOptions(const CommonOptions&) = delete;
  CommonOptions& operator=(const CommonOptions&) = delete;

  std::optional<std::string> address;
  std::optional<absl::Duration> timeout;
  bool help = false;

  // Appends those that the command has, with this object as their target.
  void AppendTo(OptionTable& table, const Command& command);

  // The server's address, of the option, the environment or by default, as
  // ReadAddress has it. INVALID_ARGUMENT, and which of them it is, if it is
  // none.
  absl::StatusOr<std::string> ServerAddress() const;

 private:
  absl::Status ReadTimeout(absl::string_view text);
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_COMMON_OPTIONS_H_
