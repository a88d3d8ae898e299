#ifndef STEADYSTATE_CLIENT_STEADYSTATE_ERROR_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_ERROR_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/support/status.h"
#include "steadystate/v1/error_reason.pb.h"

namespace steadystate::client {

// What the server says about an error beside its code and message.
struct ErrorDetails {
  // Why: a name of steadystate.v1.ErrorReason, "SESSION_NOT_FOUND".
  std::string reason;
  // The values that the message mentions, such as the true position.
  std::map<std::string, std::string> metadata;
  // How long to wait before trying again, where that may help.
  std::optional<absl::Duration> retry_after;
};

// What the server said about `status`; nothing for success and for errors that
// were made on the way: no connection, a deadline that passed on this side.
std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status);

// Why the server refused or failed, to branch on. ERROR_REASON_UNSPECIFIED for
// success, for errors without details, and for reasons newer than this library,
// of which GetErrorDetails has the name.
v1::ErrorReason ReasonOf(const absl::Status& status);

// True if a call failed because no server answered, as opposed to a server that
// refused it.
bool IsUnreachable(const absl::Status& status);

// Translates the end of a call, details included.
absl::Status ToStatus(const grpc::Status& status);

// Translates an error that travelled inside a message, as in StreamStep.
absl::Status ToStatus(const google::rpc::Status& status);

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_ERROR_H_
