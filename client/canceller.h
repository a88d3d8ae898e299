#ifndef STEADYSTATE_CLIENT_CANCELLER_H_
#define STEADYSTATE_CLIENT_CANCELLER_H_

#include <mutex>
#include <set>

#include "grpcpp/client_context.h"

namespace steadystate::client {

// Ends calls from another thread. Thread-safe; must outlive the calls that it
// was given to.
class Canceller {
 public:
  // Ends every call that has this canceller, and every later one at its start,
  // with CANCELLED.
  void Cancel() {
    const std::lock_guard<std::mutex> lock(mu_);
    cancelled_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
  }

  // True once Cancel has been called.
  bool cancelled() const {
    const std::lock_guard<std::mutex> lock(mu_);
    return cancelled_;
  }

  // Makes a call end with Cancel. REQUIRES: Remove comes before the end of
  // `call`.
  void Add(grpc::ClientContext* call) {
    const std::lock_guard<std::mutex> lock(mu_);
    calls_.insert(call);
    if (cancelled_) call->TryCancel();
  }

  // Forgets a call.
  void Remove(grpc::ClientContext* call) {
    const std::lock_guard<std::mutex> lock(mu_);
    calls_.erase(call);
  }

 private:
  mutable std::mutex mu_;
  bool cancelled_ = false;                // guarded by mu_
  std::set<grpc::ClientContext*> calls_;  // guarded by mu_
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_CANCELLER_H_
