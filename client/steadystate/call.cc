#include "steadystate/call.h"

#include <memory>
#include <set>

#include "absl/base/thread_annotations.h"
#include "client/mutex.h"

namespace steadystate::client {

struct Canceller::Calls {
  Mutex mutex;
  bool cancelled ABSL_GUARDED_BY(mutex) = false;
  std::set<grpc::ClientContext*> under_way ABSL_GUARDED_BY(mutex);
};

Canceller::Canceller() : calls_(std::make_unique<Calls>()) {}

Canceller::~Canceller() = default;

void Canceller::Cancel() {
  const MutexLock lock(calls_->mutex);
  calls_->cancelled = true;
  for (grpc::ClientContext* call : calls_->under_way) call->TryCancel();
}

bool Canceller::cancelled() const {
  const MutexLock lock(calls_->mutex);
  return calls_->cancelled;
}

gpr_timespec DeadlineIn(absl::Duration timeout) {
  return gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(absl::ToInt64Nanoseconds(timeout), GPR_TIMESPAN));
}

Call::Call(const CallOptions& options) : canceller_(options.canceller) {
  if (options.timeout != absl::InfiniteDuration()) {
    context_.set_deadline(DeadlineIn(options.timeout));
  }
  if (canceller_ == nullptr) return;
  Canceller::Calls& calls = *canceller_->calls_;
  const MutexLock lock(calls.mutex);
  calls.under_way.insert(&context_);
  if (calls.cancelled) context_.TryCancel();
}

Call::~Call() {
  if (canceller_ == nullptr) return;
  Canceller::Calls& calls = *canceller_->calls_;
  const MutexLock lock(calls.mutex);
  calls.under_way.erase(&context_);
}

}  // namespace steadystate::client
