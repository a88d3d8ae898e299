#include "server/rpc/public_error.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

// Together with at most a handful of metadata entries these stay well below
// the 8 KiB that a client accepts as metadata, even percent-encoded.
constexpr size_t kMaxMessageBytes = 1024;
constexpr size_t kMaxMetadataValueBytes = 256;

struct GenericError {
  absl::StatusCode code;
  ErrorReason reason;
  absl::string_view message;
};

// Codes that say enough by themselves.
constexpr GenericError kGenericErrors[] = {
    {absl::StatusCode::kInvalidArgument, ErrorReason::kInvalidArgument,
     "the request is invalid"},
    {absl::StatusCode::kDeadlineExceeded, ErrorReason::kDeadlineExceeded,
     "the deadline passed"},
    {absl::StatusCode::kCancelled, ErrorReason::kCancelled,
     "the request was cancelled"},
};

// Those that the protos promise a RetryInfo with, and how long if the error
// does not say it better.
constexpr absl::Duration kRetryAfter = absl::Seconds(1);

bool PromisesRetry(ErrorReason reason) {
  return reason == ErrorReason::kDraining ||
         reason == ErrorReason::kQueueFull ||
         reason == ErrorReason::kStateBudgetExhausted;
}

PublicError Generic(const absl::Status& status) {
  PublicError error;
  for (const GenericError& row : kGenericErrors) {
    if (row.code == status.code()) {
      error.code = row.code;
      error.message = std::string(row.message);
      error.details.reason = row.reason;
      return error;
    }
  }
  static auto& limiter = *new LogLimiter;
  LogLimited(limiter, LogLevel::kError, "internal error",
             {{"status", status.ToString()}});
  error.code = absl::StatusCode::kInternal;
  error.message = "internal error; the server's log has the details";
  error.details.reason = ErrorReason::kInternal;
  return error;
}

}  // namespace

PublicError ToPublicError(const absl::Status& status) {
  std::optional<ErrorDetails> details = GetErrorDetails(status);
  if (!details.has_value()) return Generic(status);
  PublicError error;
  error.code = status.code();
  error.message = std::string(Excerpt(status.message(), kMaxMessageBytes));
  error.details = *std::move(details);
  if (PromisesRetry(error.details.reason) &&
      !error.details.retry_after.has_value()) {
    error.details.retry_after = kRetryAfter;
  }
  for (auto& [key, value] : error.details.metadata) {
    // Below this layer sessions go by their ids.
    if (key == "session" && !absl::StartsWith(value, "sessions/")) {
      value.insert(0, "sessions/");
    }
    value = std::string(Excerpt(value, kMaxMetadataValueBytes));
  }
  return error;
}

google::rpc::Status ToRpcStatus(const PublicError& error) {
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(error.code));
  wire.set_message(error.message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(Name(error.details.reason)));
  info.set_domain(std::string(kErrorDomain));
  for (const auto& [key, value] : error.details.metadata) {
    (*info.mutable_metadata())[key] = value;
  }
  wire.add_details()->PackFrom(info);
  if (error.details.retry_after.has_value()) {
    google::rpc::RetryInfo retry;
    absl::Duration rest = *error.details.retry_after;
    const int64_t seconds = absl::IDivDuration(rest, absl::Seconds(1), &rest);
    retry.mutable_retry_delay()->set_seconds(seconds);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
    wire.add_details()->PackFrom(retry);
  }
  return wire;
}

grpc::Status ToGrpcStatus(const PublicError& error) {
  return {static_cast<grpc::StatusCode>(error.code), error.message,
          ToRpcStatus(error).SerializeAsString()};
}

}  // namespace steadystate
