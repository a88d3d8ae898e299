#ifndef STEADYSTATE_SERVER_BASE_ERROR_H_
#define STEADYSTATE_SERVER_BASE_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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
  kRequestIdReused,
  kReplayUnavailable,
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
  kSnapshotCorrupt,
  kSnapshotVersionUnsupported,
  kModelFingerprintMismatch,
  kNumericsMismatch,
  kStoreUnavailable,
  kNoStore,
  kPositionOutOfReach,
  kCheckpointNotFound,
  kCheckpointAlreadyExists,
  kStateNotFinite,
  kCursorExpired,
  kCheckpointLimitReached,
  kMethodNotServed,
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
                       const ErrorMetadata& metadata = {},
                       std::optional<absl::Duration> retry_after = {});

// What MakeError attached to `status`, or nothing for other statuses.
std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status);

// Errors about single fields of requests and options: INVALID_ARGUMENT with the
// metadata field, value and bounds. A field is named by its path within the
// request, "sampling.temperature", and the text begins with that path.

// "<field> is <value>; it must be <bounds>", for instance bounds "in [0, 100]".
// Of a long value only the beginning is shown.
absl::Status OutOfBounds(absl::string_view field, const absl::AlphaNum& value,
                         absl::string_view bounds);

// "<field> is missing: <what it has to be>", without value and bounds.
absl::Status MissingField(absl::string_view field, absl::string_view rule);

// OK if low <= value <= high. Refuses NaN.
template <typename T>
absl::Status CheckRange(absl::string_view field, T value, T low, T high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return OutOfBounds(field, value, absl::StrCat("in [", low, ", ", high, "]"));
}

// OK if low < value <= high. Refuses NaN.
absl::Status CheckOpenRange(absl::string_view field, double value, double low,
                            double high);

// `status` with `path` before the field that it names: for a message
// that is itself a field of another one.
absl::Status Within(absl::string_view path, const absl::Status& status);

// `status` with `to` in place of `from` where the field that it names begins
// with that: for code that has the value under another name. A status that
// names another field stays as it is.
absl::Status Renamed(absl::string_view from, absl::string_view to,
                     const absl::Status& status);

// The same, with nothing shared: for an error that several threads are told of,
// where each may be the last to let go of it. Abseil counts who has one, in
// code that ThreadSanitizer does not see.
absl::Status CloneError(const absl::Status& status);

// The first `max_bytes` bytes of `text` or less, so that no UTF-8 character is
// cut in two. What is left out is not marked.
absl::string_view Excerpt(absl::string_view text, size_t max_bytes);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_BASE_ERROR_H_
