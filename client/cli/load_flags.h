#ifndef STEADYSTATE_CLIENT_CLI_LOAD_FLAGS_H_
#define STEADYSTATE_CLIENT_CLI_LOAD_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/load/load_options.h"
#include "client/load/sweep.h"
#include "client/options/options.h"

namespace steadystate::client {

// What `steadystate load` is asked for.
struct LoadOrder {
  LoadOptions options;
  SweepSpec sweep;
  uint64_t repeat = 1;

  // True if there is more than one run.
  bool several() const {
    return sweep.variable != SweepVariable::kNothing || repeat > 1;
  }
};

// Reads a whole file. INVALID_ARGUMENT if it has more than 32 MiB, else why it
// cannot be read.
absl::StatusOr<std::string> ReadShortFile(const std::string& path);

// The options that say what load to put on a server. Must not be moved once a
// table points at it.
class LoadFlags {
 public:
  LoadFlags() = default;
  LoadFlags(const LoadFlags&) = delete;
  LoadFlags& operator=(const LoadFlags&) = delete;

  // Appends the options, with this object as their target.
  void AppendTo(OptionTable& table);

  // What they say, with the files that they name. INVALID_ARGUMENT, or why a
  // file cannot be read.
  absl::StatusOr<LoadOrder> Read() const;

 private:
  void AppendConnections(OptionTable& table);
  void AppendRequests(OptionTable& table);
  void AppendArrivals(OptionTable& table);
  void AppendTimes(OptionTable& table);
  void AppendAims(OptionTable& table);
  absl::Status ReadRpc(absl::string_view text);
  absl::Status ReadArrivals(absl::string_view text);
  absl::Status ReadFiles(LoadOptions& options) const;
  absl::Status ReadTimes(LoadOptions& options) const;
  absl::Status CheckSweep() const;
  absl::Status CheckNeeded(const LoadOptions& options) const;

  LoadOptions options_;
  SweepSpec sweep_;
  std::optional<uint64_t> sessions_;
  std::optional<uint64_t> streams_;
  std::optional<uint64_t> connections_;
  std::optional<std::string> prompt_file_;
  std::optional<double> rate_;
  std::optional<std::string> trace_;
  std::optional<absl::Duration> warmup_;
  std::optional<absl::Duration> duration_;
  std::optional<absl::Duration> max_send_lag_;
  std::optional<double> attainment_;
  std::optional<uint64_t> repeat_;
  std::optional<uint64_t> seed_;
  bool prompt_tokens_given_ = false;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CLI_LOAD_FLAGS_H_
