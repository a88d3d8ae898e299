#include "steadystate/error.h"

#include "absl/strings/cord.h"
#include "google/rpc/error_details.pb.h"

namespace steadystate::client {
namespace {

constexpr char kErrorInfoUrl[] = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kDomain[] = "steadystate";

absl::Status MakeStatus(int code, const std::string& message,
                        const google::rpc::Status& details) {
  absl::Status status(static_cast<absl::StatusCode>(code), message);
  for (const auto& detail : details.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return status;
}

template <typename Message>
std::optional<Message> Payload(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  Message message;
  if (!payload || !message.ParseFromString(std::string(*payload))) return {};
  return message;
}

}  // namespace

std::optional<ErrorDetails> GetErrorDetails(const absl::Status& status) {
  const auto info = Payload<google::rpc::ErrorInfo>(status, kErrorInfoUrl);
  if (!info || info->domain() != kDomain) return {};
  ErrorDetails details{
      info->reason(), {info->metadata().begin(), info->metadata().end()}, {}};
  const auto retry = Payload<google::rpc::RetryInfo>(status, kRetryInfoUrl);
  if (retry) {
    details.retry_after = absl::Seconds(retry->retry_delay().seconds()) +
                          absl::Nanoseconds(retry->retry_delay().nanos());
  }
  return details;
}

v1::ErrorReason ReasonOf(const absl::Status& status) {
  v1::ErrorReason reason = v1::ERROR_REASON_UNSPECIFIED;
  const auto details = GetErrorDetails(status);
  // Leaves it as it is where the name is unknown.
  if (details) v1::ErrorReason_Parse(details->reason, &reason);
  return reason;
}

bool IsUnreachable(const absl::Status& status) {
  return absl::IsUnavailable(status) && !GetErrorDetails(status);
}

absl::Status ToStatus(const grpc::Status& status) {
  google::rpc::Status details;
  // Details that cannot be read say no more than none.
  if (!details.ParseFromString(status.error_details())) details.Clear();
  return MakeStatus(status.error_code(), status.error_message(), details);
}

absl::Status ToStatus(const google::rpc::Status& status) {
  return MakeStatus(status.code(), status.message(), status);
}

}  // namespace steadystate::client
