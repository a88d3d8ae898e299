#ifndef STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_
#define STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"
#include "server/rpc/call_record.h"
#include "server/rpc/inbound_budget.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/outbound_queue.h"
#include "server/rpc/service_context.h"
#include "server/rpc/step_message.h"
#include "server/rpc/step_room.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// One StreamStep call. Steps arrive on gRPC's threads, one message of them at a
// time, and are answered on the engine's compute thread; answers of one session
// keep the order of its requests, refusals included. What a round of the engine
// answers leaves in one message.
//
// At most one read and one write are outstanding. No request is taken from the
// stream, or from a message that has several, while kMaxPending are in flight
// or kOutboundBytes of answers wait or are to be expected, so its memory is
// bounded whatever the client does.
//
// The call is finished exactly once, when nothing is pending or being written
// and no round is open: so no callback of the engine can come later. What to do
// next is decided under the lock that something was noted under: in between,
// another thread could end the call. The object owns itself from Start to
// OnDone, and is there for all of a callback because of
//   OnReadDone, OnWriteDone, OnCancel: gRPC, which calls OnDone after them;
//   Drain: OpenStreams, where OnDone waits for it;
//   OnSteps: the requests that it answers, and then the open round, either of
//     which keeps the call from being finished;
//   OnRoundEnd, which closes the round: a reference that it takes before;
//   OnRoom: its caller's reference.
//
// Lock order: the engine is never called with mutex_ held.
class StreamStepReactor final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, v1::StreamStepResponse>,
      public OpenStream,
      public StepSink,
      public WaitingStream,
      public OutboundBudget::Waiter,
      public std::enable_shared_from_this<StreamStepReactor> {
 public:
  static StreamStepReactor* Start(ServiceContext& services,
                                  grpc::CallbackServerContext& context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;
  void Drain() override;
  void OnSteps(std::span<const StepAnswer> answers) override;
  void OnRoundEnd() override;
  void OnRoom() override;
  void OnOutboundRoom() override;

 private:
  static constexpr size_t kMaxRequestIdBytes = 128;

  using Result = v1::StreamStepResponse::Result;
  struct Pending;

  // "sessions/{id}", or what was in its place, and the last request of it that
  // is pending, if any is.
  using Lanes = absl::node_hash_map<std::string, Pending*>;

  // A request between its arrival and the moment its answer may be sent.
  struct Pending {
    size_t index = 0;  // in pool_
    std::string request_id;
    Lanes::pointer lane = nullptr;
    size_t cost = 0;               // bytes of it and of the answer expected
    uint64_t serial = 0;           // tells this use of the object from others
    RequestId engine_id = 0;       // 0: not known (yet)
    bool first = false;            // none of its session is before it
    Pending* next = nullptr;       // the one of its session after it
    std::optional<Result> answer;  // if others of its session are before it
  };

  // Who has message_ at the moment.
  enum class Reading : uint8_t {
    kIdle,         // nobody: the next read may start
    kOutstanding,  // gRPC, at once or soon
    kHandling,     // OnReadDone or OnWriteDone
    kStalled,      // nobody: it has requests for which there is no room
  };

  // One of message_'s steps that has been looked at and not been taken up.
  struct Arrival {
    const std::string* request_id = nullptr;
    const std::string* session = nullptr;
    size_t cost = 0;
    absl::Status refusal;  // OK: converted
  };

  // What to do once mutex_ is released.
  struct Actions {
    OutboundBudget::Woken woken;
    bool read = false;
    const v1::StreamStepResponse* write = nullptr;
    std::optional<absl::Status> finish;
  };

  StreamStepReactor(ServiceContext& services,
                    grpc::CallbackServerContext& context);

  // Makes what was read the message to be handled. The caller has message_.
  absl::Status TakeMessage();
  // Hands to the engine as many of message_'s steps as there is room for. The
  // caller has message_, and has it no more.
  void Submit() ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds steps of message_ to submissions_ while there is room.
  void TakeSteps() ABSL_LOCKS_EXCLUDED(mutex_);
  // Looks at steps of message_ that have been read: adds them to arrivals_, and
  // what they ask for behind submissions_' used part.
  void ConvertSteps();
  // Returns its cost. `refusal`: OK, or why it was not read.
  size_t ConvertStep(const StepMessage::Request& request,
                     const absl::Status& refusal);
  absl::Status Convert(const std::string& request_id,
                       const v1::StepRequest* step, StepRequest& to) const;
  // Takes up arrivals_, or answers them with their refusals, while there is
  // room; and empties them. False if there is no more room.
  bool TakeUp() ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts message_'s bytes, if they are not counted yet.
  absl::Status ChargeMessage();
  // Ends the stream with `status` once what came before is answered. The caller
  // has message_.
  void Refuse(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Empties message_.
  void DropMessage() ABSL_LOCKS_EXCLUDED(mutex_);
  // Lets go of message_; false if its next steps can be submitted at once.
  bool GiveBack() ABSL_LOCKS_EXCLUDED(mutex_);
  Pending& AddPending(const std::string& request_id, const std::string& session,
                      size_t cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Lanes::pointer LaneOf(absl::string_view session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Notes the engine's ids and refusals of submissions_.
  void NoteSubmitted() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes the engine's answer, or a refusal before it.
  void Answer(Pending& pending, const absl::StatusOr<StepResult>& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(const Pending& pending, const absl::StatusOr<StepResult>& result,
            Result& answer) const;
  // The answers of a session that need not wait any longer, after one of it has
  // gone before them.
  void Release(Pending* pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets a request that has been answered; returns the one of its session
  // after it.
  Pending* Forget(Pending& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<RequestId> PendingIds() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Nobody hears us any more.
  void Break() ABSL_LOCKS_EXCLUDED(mutex_);

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there is room among all calls' answers for those of arrivals_. If
  // not, OnOutboundRoom will tell when there is.
  bool ReserveForArrivals() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // If the connection's messages leave no room, OnRoom will tell of it.
  bool HasInboundRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayFinish() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(Actions actions) ABSL_LOCKS_EXCLUDED(mutex_);
  // Does what may be done now.
  void Proceed() ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceContext& services_;
  grpc::CallbackServerContext& context_;
  CallRecord record_;
  const WriterId writer_;
  const ClientId client_;
  std::shared_ptr<StreamStepReactor> self_;  // from Start to OnDone

  // Owned by the outstanding read, or by who handles the message.
  grpc::ByteBuffer received_;
  StepMessage message_;
  size_t charged_ = 0;  // to the inbound budget, for message_
  std::vector<Arrival> arrivals_;
  size_t converted_ = 0;  // of them
  // The first serials_.size() are to be submitted. What is behind them is kept
  // for its memory.
  std::vector<StepSubmission> submissions_;
  std::vector<uint64_t> serials_;  // of their Pendings

  Mutex mutex_;
  OutboundQueue<v1::StreamStepResponse> outbound_ ABSL_GUARDED_BY(mutex_);
  StepRoom outbound_room_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Pending>> pool_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pending*> free_ ABSL_GUARDED_BY(mutex_);
  // Sessions seen, not all of which have pending requests.
  Lanes lanes_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_serial_ ABSL_GUARDED_BY(mutex_) = 1;
  size_t pending_count_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t pending_cost_ ABSL_GUARDED_BY(mutex_) = 0;
  Reading reading_ ABSL_GUARDED_BY(mutex_) = Reading::kIdle;
  // Calls of StartRead decided on that have not returned: too early to finish.
  size_t reads_starting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool room_awaited_ ABSL_GUARDED_BY(mutex_) = false;  // OnRoom will come
  bool round_open_ ABSL_GUARDED_BY(mutex_) = false;    // OnRoundEnd will come
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;  // by the client
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);      // of the rest of it
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_
