#ifndef STEADYSTATE_CLIENT_STEADYSTATE_CALL_H_
#define STEADYSTATE_CLIENT_STEADYSTATE_CALL_H_

#include <memory>

#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"

namespace steadystate::client {

// Ends calls from another thread. Thread-safe; must outlive the calls that it
// was given to.
class Canceller {
 public:
  Canceller();
  ~Canceller();
  Canceller(const Canceller&) = delete;
  Canceller& operator=(const Canceller&) = delete;

  // Ends every call that has this canceller, and every later one at its start,
  // with CANCELLED.
  void Cancel();

  // True once Cancel has been called.
  bool cancelled() const;

 private:
  friend class Call;
  struct Calls;

  const std::unique_ptr<Calls> calls_;
};

// How to make one call.
struct CallOptions {
  // The call, or stream, fails with DEADLINE_EXCEEDED if it takes longer.
  absl::Duration timeout = absl::InfiniteDuration();
  // Optional. Ends the call from another thread.
  Canceller* canceller = nullptr;
};

// A deadline for gRPC: `timeout` from now, whatever is done to the time of day
// meanwhile.
gpr_timespec DeadlineIn(absl::Duration timeout);

// The context of one call, with its options applied: for code that makes calls
// on Client::channel() itself. Lives from before the call's start until
// after its end. Thread-compatible; the options' canceller may be used
// meanwhile.
class Call {
 public:
  explicit Call(const CallOptions& options);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Owned by this object.
  grpc::ClientContext* context() { return &context_; }

 private:
  Canceller* const canceller_;
  grpc::ClientContext context_;
};

}  // namespace steadystate::client

#endif  // STEADYSTATE_CLIENT_STEADYSTATE_CALL_H_
