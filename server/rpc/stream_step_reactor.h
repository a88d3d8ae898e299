#ifndef STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_
#define STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_queue.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// One StreamStep call. Steps arrive on gRPC's threads, one at a time, and are
// answered on the engine's compute thread; answers of one session keep the
// order of its requests, refusals included.
//
// At most one read and one write are outstanding. The stream is not read while
// it has kMaxPending requests in flight or kOutboundBytes of answers waiting or
// to be expected, so its memory is bounded whatever the client does.
//
// The call is finished exactly once, when nothing is pending or being written:
// so no callback of the engine can come later. The object owns itself from
// Start to OnDone. Lock order: the engine is never called with mutex_ held.
class StreamStepReactor final
    : public grpc::ServerBidiReactor<v1::StreamStepRequest,
                                     v1::StreamStepResponse>,
      public OpenStream,
      public std::enable_shared_from_this<StreamStepReactor> {
 public:
  static StreamStepReactor* Start(ServiceContext& services,
                                  grpc::CallbackServerContext& context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Drain() override;

 private:
  // A request between its arrival and the moment its answer may be sent.
  struct Pending {
    std::string request_id;
    std::string session;      // "sessions/{id}", or what was in its place
    size_t cost = 0;          // bytes of it and of the answer expected
    uint64_t serial = 0;      // tells this use of the object from others
    RequestId engine_id = 0;  // 0: not known (yet)
    bool first = false;       // none of its session is before it
    Pending* next = nullptr;  // the one of its session after it
    std::optional<v1::StreamStepResponse::Result> answer;
  };

  // Who has request_ at the moment.
  enum class Reading : uint8_t {
    kIdle,         // nobody: the next read may start
    kOutstanding,  // gRPC, at once or soon
    kHandling,     // OnReadDone
  };

  // What to do once mutex_ is released.
  struct Actions {
    bool read = false;
    const v1::StreamStepResponse* write = nullptr;
    std::optional<absl::Status> finish;
  };

  StreamStepReactor(ServiceContext& services,
                    grpc::CallbackServerContext& context);

  // Hands request_ to the engine.
  void Submit() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<StepRequest> ConvertRequest() const;
  Pending& AddPending(size_t cost) ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the engine's answer, or a refusal before it.
  void Answer(Pending& pending, absl::StatusOr<StepResult> result)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sends the answers of a session that need not wait any longer.
  void Release(Pending* pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<RequestId> PendingIds() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody hears us any more.
  void Break() ABSL_LOCKS_EXCLUDED(mutex_);

  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayFinish() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceContext& services_;
  grpc::CallbackServerContext& context_;
  CallRecord record_;
  const WriterId writer_;
  std::shared_ptr<StreamStepReactor> self_;  // from Start to OnDone
  v1::StreamStepRequest request_;            // owned by the outstanding read

  Mutex mutex_;
  OutboundQueue<v1::StreamStepResponse> outbound_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Pending>> pool_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pending*> free_ ABSL_GUARDED_BY(mutex_);
  // The last pending request of each session that has one.
  absl::flat_hash_map<std::string, Pending*> last_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_serial_ ABSL_GUARDED_BY(mutex_) = 1;
  size_t pending_count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t pending_cost_ ABSL_GUARDED_BY(mutex_) = 0;
  Reading reading_ ABSL_GUARDED_BY(mutex_) = Reading::kOutstanding;
  // Calls of StartRead decided on that have not returned: too early to finish.
  size_t reads_starting_ ABSL_GUARDED_BY(mutex_) = 1;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;  // by the client
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_
