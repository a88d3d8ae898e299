#ifndef STEADYSTATE_CLIENT_CANCELLER_H_
#define STEADYSTATE_CLIENT_CANCELLER_H_

#include <set>

#include "absl/base/thread_annotations.h"
#include "client/mutex.h"
#include "grpcpp/client_context.h"

namespace steadystate::client {

// Ends calls from another thread. Thread-safe; must outlive the calls that it
// was given to.
class Canceller {
 public:
  // Ends every call that has this canceller, and every later one at its start,
  // with CANCELLED.
  void Cancel() {
    const MutexLock lock(mutex_);
    cancelled_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }

  // True once Cancel has been called.
  bool cancelled() const {
    const MutexLock lock(mutex_);
    return cancelled_;
  }

  // Makes a call end with Cancel. REQUIRES: Remove comes before the end of
  // `call`.
  void Add(grpc::ClientContext* call) {
    const MutexLock lock(mutex_);
    calls_.insert(call);
    if (cancelled_) call->TryCancel();
  }

  // Forgets a call.
  void Remove(grpc::ClientContext* call) {
    const MutexLock lock(mutex_);
    calls_.erase(call);
  }

 private:
  mutable Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CANCELLER_H_
