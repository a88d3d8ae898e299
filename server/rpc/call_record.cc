#include "server/rpc/call_record.h"

#include <chrono>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
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

grpc::Status CallRecord::End(const absl::Status& status) {
  const SteadyTime now = clock_.Now();
  const absl::Duration duration = now - start_;
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
