#include "server/rpc/call_record.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/rpc/answer.h"

namespace steadystate {
namespace {

thread_local std::optional<SteadyTime> arrived_at;

// gRPC keeps a deadline in steady time and tells it as a time of day, by the
// clock as it is when it is asked: that clock is read at once.
SteadyTime DeadlineOf(const grpc::CallbackServerContext& context,
                      const Clock& clock) {
  using WallClock = std::chrono::system_clock;
  const WallClock::time_point deadline = context.deadline();
  if (deadline == WallClock::time_point::max()) {
    return SteadyTime::InfiniteFuture();
  }
  const WallClock::duration left = deadline - WallClock::now();
  return clock.Now() + absl::FromChrono(left);
}

}  // namespace

ArrivedAt::ArrivedAt(SteadyTime time) { arrived_at = time; }
ArrivedAt::~ArrivedAt() { arrived_at.reset(); }

CallRecord::CallRecord(absl::string_view method,
                       grpc::CallbackServerContext& context,
                       const ServiceContext& services)
    : method_(method),
      context_(context),
      metrics_(services.metrics),
      clock_(services.engine.clock()),
      start_(arrived_at.has_value() ? *arrived_at : clock_.Now()),
      deadline_(DeadlineOf(context, clock_)) {}

// For whoever looks for one call: with the id that a client may send along.
void CallRecord::LogCall(absl::string_view code, absl::string_view reason,
                         absl::string_view message,
                         absl::Duration duration) const {
  if (!IsLogged(LogLevel::kDebug)) return;
  const auto& metadata = context_.client_metadata();
  const auto id = metadata.find("x-request-id");
  Log(LogLevel::kDebug, "call",
      {{"method", method_},
       {"code", code},
       {"reason", reason},
       {"error", message},
       {"took", absl::FormatDuration(duration)},
       {"peer", context_.peer()},
       {"x_request_id",
        id == metadata.end()
            ? absl::string_view()
            : absl::string_view(id->second.data(), id->second.size())}});
}

grpc::Status CallRecord::End(const absl::Status& status) {
  const SteadyTime now = clock_.Now();
  const absl::Duration duration = now - start_;
  if (status.ok()) {
    metrics_.RequestFinished(method_, absl::StatusCode::kOk, duration);
    LogCall("OK", "", "", duration);
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
  LogCall(absl::StatusCodeToString(error.code), Name(error.details.reason),
          error.message, duration);
  if (error.details.retry_after.has_value()) {
    context_.AddTrailingMetadata(
        kPushbackTrailer,
        absl::StrCat(absl::ToInt64Milliseconds(*error.details.retry_after)));
  }
  return ToGrpcStatus(error);
}

}  // namespace steadystate
