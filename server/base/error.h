#ifndef STEADYSTATE_SERVER_BASE_ERROR_H_
#define STEADYSTATE_SERVER_BASE_ERROR_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace steadystate {

// Why a request was refused, in a form that a client can act on. Each reason
// has one canonical code and one name on the wire (ErrorInfo.reason); both
// stand in the table of error.cc.
enum class ErrorReason : uint8_t {
  kSessionNotFound,
  kSessionExpired,
  kSessionAlreadyExists,
  kSessionBusy,
  kPositionMismatch,
  kStateBudgetExhausted,
  kQueueFull,
  kContextCapReached,
  kDraining,
  kInvalidArgument,
  kTokenOutOfRange,
  kNoPendingLogits,
  kTokenizerUnavailable,
  kModelNotFound,
  kDeadlineExceeded,
  kCancelled,
  kInvalidPageToken,
  kMessageTooLarge,
  kBidirectionalUnsupported,
  kInternal,
};

// The wire name of a reason, "SESSION_NOT_FOUND".
absl::string_view Name(ErrorReason reason);

// The one canonical code that goes with a reason.
absl::StatusCode Code(ErrorReason reason);

// All reasons, for tests and documentation.
std::span<const ErrorReason> AllErrorReasons();

// A key and a value of ErrorInfo.metadata. Whatever varies in a message is
// repeated here, so that no client has to parse text.
using ErrorMetadata = std::vector<std::pair<std::string, std::string>>;

// What MakeError attached to a status.
struct ErrorDetails {
  ErrorReason reason = ErrorReason::kInternal;
  ErrorMetadata metadata;
  std::optional<absl::Duration> retry_after;  // becomes RetryInfo
};

// A status with the code of `reason`. The message says what, which value, which
// bound and what to do about it.
absl::Status MakeError(ErrorReason reason, absl::string_view message,
                       ErrorMetadata metadata = {},
                       std::optional<absl::Duration> retry_after = {});

// What MakeError attached to `status`, or nothing for other statuses.
std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_ERROR_H_
