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
  std::string metrics_listen;
  absl::Duration drain_lag;
  absl::Duration drain_timeout;
  absl::Duration drain_budget;
  std::string store;  // a directory; empty: none
  bool allow_damaged_store = false;
  LogLevel log_level = LogLevel::kInfo;
  // --help or --version: print this and do nothing else.
  std::optional<std::string> text;
};

// INVALID_ARGUMENT if a flag is unknown, has a value that it cannot have, or is
// missing; the message names it. Values that only make sense together with the
// model are checked by whoever gets them.
absl::StatusOr<Flags> ParseFlags(int argc, char** argv);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_FLAGS_H_
