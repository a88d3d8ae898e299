#include "server/rpc/call_record.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/base/error.h"
#include "server/rpc/status.h"

namespace steadystate {
namespace {

absl::Time DeadlineOf(const grpc::CallbackServerContext& context) {
  const std::chrono::system_clock::time_point deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteFuture();
  }
  return absl::FromChrono(deadline);
}

}  // namespace

CallRecord::CallRecord(absl::string_view method,
                       grpc::CallbackServerContext& context, Metrics& metrics)
    : method_(method),
      context_(context),
      metrics_(metrics),
      start_(absl::Now()),
      deadline_(DeadlineOf(context)) {}

grpc::Status CallRecord::End(const absl::Status& status) {
  const absl::Time now = absl::Now();
  const absl::Duration duration = std::max(now - start_, absl::ZeroDuration());
  if (status.ok()) {
    metrics_.RequestFinished(method_, absl::StatusCode::kOk, duration);
    return grpc::Status::OK;
  }
  // gRPC tells of a passed deadline in the same way as of a client that
  // cancelled.
  const PublicError error =
      absl::IsCancelled(status) && now >= deadline_
          ? ToPublicError(absl::DeadlineExceededError("the deadline passed"))
          : ToPublicError(status);
  metrics_.RequestFinished(method_, error.code, duration);
  metrics_.ErrorAnswered(Name(error.details.reason));
  if (error.details.retry_after.has_value()) {
    context_.AddTrailingMetadata(
        kPushbackTrailer,
        absl::StrCat(absl::ToInt64Milliseconds(*error.details.retry_after)));
  }
  return ToGrpcStatus(error);
}

}  // namespace steadystate
