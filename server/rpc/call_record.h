#ifndef STEADYSTATE_SERVER_RPC_CALL_RECORD_H_
#define STEADYSTATE_SERVER_RPC_CALL_RECORD_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "server/base/clock.h"
#include "server/rpc/service_context.h"

namespace steadystate {

// While it exists, the calls that are recorded on this thread arrived at `time`
// already, by the engine's clock: they have waited before.
class ArrivedAt {
 public:
  explicit ArrivedAt(SteadyTime time);
  ~ArrivedAt();
  ArrivedAt(const ArrivedAt&) = delete;
  ArrivedAt& operator=(const ArrivedAt&) = delete;
};

// Times a call and counts how it ended: the one way in which calls end.
// Thread-compatible.
class CallRecord {
 public:
  // `method` is a full RPC name, a literal. The others outlive the record. Make
  // it when the call arrives (or see ArrivedAt).
  CallRecord(absl::string_view method, grpc::CallbackServerContext& context,
             const ServiceContext& services);

  // When the client gives up by the engine's clock, or the infinite future.
  SteadyTime deadline() const { return deadline_; }

  // What to finish the call with. Counts it, so that whoever sees the answer
  // also finds it in the metrics. Call once.
  grpc::Status End(const absl::Status& status);

 private:
  void LogCall(absl::string_view code, absl::string_view reason,
               absl::string_view message, absl::Duration duration) const;

  const absl::string_view method_;
  grpc::CallbackServerContext& context_;
  Metrics& metrics_;
  const Clock& clock_;
  const SteadyTime start_;
  const SteadyTime deadline_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CALL_RECORD_H_
