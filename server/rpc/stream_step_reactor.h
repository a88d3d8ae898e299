#ifndef STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_
#define STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/answer_order.h"
#include "server/rpc/call_progress.h"
#include "server/rpc/call_record.h"
#include "server/rpc/fair_share.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/service_context.h"
#include "server/rpc/step_intake.h"
#include "server/rpc/step_protocol.h"

namespace steadystate {

// One stream of steps, of whatever protocol: what gRPC, the engine and the
// budgets have to say to each other. Messages of steps arrive on gRPC's
// threads, one at a time, and are taken apart (StepIntake); the engine's
// compute thread answers; answers of one session keep the order of its requests
// (AnswerOrder); what may be read, written and finished then is told by
// CallProgress. What a round of the engine answers leaves in one message.
//
// At most one read and one write are outstanding. No request is taken from the
// stream, or from a message that has several, while kMaxPending are in flight
// or kOutboundBytes of answers wait or are to be expected, so its memory is
// bounded whatever the client does.
//
// The call is finished exactly once, when nothing is pending or being written.
// What to do next is decided under the lock that something was noted under: in
// between, another thread could end the call. The object owns itself from Start
// to OnDone, and is there for all of a callback because of
//   OnReadDone, OnWriteDone, OnCancel: gRPC, which calls OnDone after them;
//   GoAway, Drain: OpenStreams, where OnDone waits for them;
//   OnAnswers, OnRoundEnd: the engine's reference, which lasts to the end of
//     the round; the call may be over before that;
//   OnRoom, OnOutboundRoom: their callers' reference;
//   what goes on elsewhere: the work there shares it.
//
// Lock order: the engine is never called with mutex_ held; the mutex of the
// threads for texts is taken within it.
class StreamStepReactor final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer,
                                     google::protobuf::Message>,
      public OpenStream,
      public Receiver<StepRequest>,
      public WaitingStream,
      public OutboundBudget::Waiter,
      public std::enable_shared_from_this<StreamStepReactor> {
 public:
  // `protocol` outlives the call.
  static StreamStepReactor* Start(const StepProtocol& protocol,
                                  ServiceContext& services,
                                  grpc::CallbackServerContext& context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  // Nobody hears us any more.
  void OnCancel() override;
  void OnDone() override;
  void GoAway(absl::Time requests_until) override;
  void Drain() override;
  void OnAnswers(std::span<const Answer<StepRequest>> answers) override;
  void OnRoundEnd() override;
  void OnRoom() override;
  void OnOutboundRoom() override;

 private:
  // What to do once mutex_ is released.
  struct Actions {
    OutboundBudget::Woken woken;
    bool read = false;
    const google::protobuf::Message* write = nullptr;
    std::optional<absl::Status> finish;
  };

  StreamStepReactor(const StepProtocol& protocol, ServiceContext& services,
                    grpc::CallbackServerContext& context);

  // Hands to the engine as many of the message's steps as there is room for,
  // gives intake_ back, and does what may be done then. The caller has intake_,
  // here and wherever a function uses it.
  void Submit() ABSL_LOCKS_EXCLUDED(mutex_);
  // True if looking at more texts would keep this thread too long: then the
  // thread for texts has intake_, and goes on when the connection's turn comes.
  bool GoOnElsewhere() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes up steps of the message while there is room, and time for texts.
  void TakeSteps() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes up the steps that were looked at, or answers them with their
  // refusals, while there is room. False if there is no more room.
  bool TakeUp() ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes what the engine says of the submissions, and lets go of intake_:
  // fills in what may be done then. False if the message's next steps can be
  // taken up at once, and then intake_ stays the caller's.
  bool GiveBack(Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes the engine's ids and refusals of the submissions. Returns ids that
  // nobody wants.
  std::vector<RequestId> NoteSubmitted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends the stream with `status` once what came before is answered.
  void Refuse(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Refuses a request that was taken up.
  void RefuseStep(AnswerOrder::Tag tag, const absl::Status& refusal)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Where answers go; null if nobody hears us any more.
  StepQueue* Out() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return progress_.broken() ? nullptr : &outbound_;
  }

  void EndSessions() ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // If the connection's messages leave no room, OnRoom will tell of it.
  bool HasInboundRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EndStatus() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Act(Actions actions) ABSL_LOCKS_EXCLUDED(mutex_);
  // Does what may be done now.
  void Proceed() ABSL_LOCKS_EXCLUDED(mutex_);

  const StepProtocol& protocol_;
  ServiceContext& services_;
  grpc::CallbackServerContext& context_;
  CallRecord record_;
  const ClientId client_;
  std::shared_ptr<StreamStepReactor> self_;  // from Start to OnDone

  // Owned by the outstanding read, or by the thread that takes it apart.
  grpc::ByteBuffer received_;
  StepIntake intake_;

  ReadStarts starts_;
  Mutex mutex_;
  CallProgress progress_ ABSL_GUARDED_BY(mutex_);
  StepQueue outbound_ ABSL_GUARDED_BY(mutex_);
  StepRoom outbound_room_ ABSL_GUARDED_BY(mutex_);
  AnswerOrder order_ ABSL_GUARDED_BY(mutex_);
  bool room_awaited_ ABSL_GUARDED_BY(mutex_) = false;  // OnRoom will come
  // Of the thread for texts, if it was the last to go on.
  TurnTicket ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;  // by the client
  bool going_away_ ABSL_GUARDED_BY(mutex_) = false;   // the client is told
  bool drained_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);  // of the rest of it
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_STREAM_STEP_REACTOR_H_
