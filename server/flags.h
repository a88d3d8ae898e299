#ifndef STEADYSTATE_SERVER_FLAGS_H_
#define STEADYSTATE_SERVER_FLAGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/logging.h"
#include "server/engine/engine.h"
#include "server/model/model.h"
#include "server/rpc/server.h"

namespace steadystate {

// What the command line says.
struct Flags {
  ModelOptions model;
  EngineOptions engine;
  ServerOptions server;
  // Absent: metrics are not served.
  std::optional<std::string> metrics_listen;
  absl::Duration drain_lag;
  absl::Duration drain_timeout;
  absl::Duration drain_budget;
  std::string store;        // a directory; empty: none
  std::string needs_store;  // a flag that was given and needs one
  bool allow_damaged_store = false;
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  // --help or --version, for instance: print this and do nothing else.
  std::optional<std::string> text;
};

// INVALID_ARGUMENT if a flag is unknown, has a value that it cannot have, or is
// missing; the message names it. All that can be said without the model and the
// machine's addresses is said here; the rest is checked by whoever gets it.
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_FLAGS_H_
