#ifndef STEADYSTATE_SERVER_RPC_CALL_RECORD_H_
#define STEADYSTATE_SERVER_RPC_CALL_RECORD_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "server/metrics/metrics.h"

namespace steadystate {

// Times a call and counts how it ended: the one way in which calls end.
// Thread-compatible.
class CallRecord {
 public:
  // `method` is a full RPC name, a literal. The others outlive the record.
  CallRecord(absl::string_view method, grpc::CallbackServerContext& context,
             Metrics& metrics);

  // When the client gives up, or the infinite future.
  absl::Time deadline() const { return deadline_; }

  // What to finish the call with. Counts it, so that whoever sees the answer
  // also finds it in the metrics. Call once.
  grpc::Status End(const absl::Status& status);

 private:
  const absl::string_view method_;
  grpc::CallbackServerContext& context_;
  Metrics& metrics_;
  const absl::Time start_;
  const absl::Time deadline_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CALL_RECORD_H_
