#ifndef STEADYSTATE_SERVER_RPC_RESULT_STREAM_H_
#define STEADYSTATE_SERVER_RPC_RESULT_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/receiver.h"
#include "server/engine/request.h"
#include "server/rpc/call_progress.h"
#include "server/rpc/call_record.h"
#include "server/rpc/connection.h"
#include "server/rpc/open_streams.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/outbound_queue.h"
#include "server/rpc/service_context.h"
#include "server/rpc/turn_threads.h"

namespace steadystate {

// What a message has a place for: that the server is about to shut down.
template <typename Response>
concept TellsGoingAway = requires(Response& message) {
  message.mutable_going_away();
};

// One call that streams what a request of the engine produces: Generate,
// Score or Embed. Items arrive on the compute thread and are written from there
// or, when a write is outstanding, together once it is done. The request pauses
// while kMaxItems items wait, while the next piece would make more than
// kOutboundBytes wait, or more than two pieces if those are larger, and while
// there is no room for the piece in what all calls share (OutboundBudget),
// which is reserved before it is computed. So a client that does not read costs
// no more than that.
//
// The call is finished exactly once, after the engine's last call and the last
// write. The object owns itself from its creation to the reactor's OnDone,
// which gRPC calls when OnWriteDone and OnCancel have returned. The engine
// and the thread for long texts, which call it from other threads, share it for
// as long as they do; OpenStreams calls those whose messages tell of a
// shutdown, and OnDone waits for that. Lock order: the engine is never called
// with mutex_ held.
//
// A file that starts such a call includes result_stream-inl.h.
template <typename Response, typename R>
class ResultStream : public grpc::ServerWriteReactor<Response>,
                     public Receiver<R>,
                     public OpenStream,
                     public OutboundBudget::Waiter {
 public:
  using Summary = typename R::Summary;

  // Hands a request to the engine, with the stream as its receiver, once the
  // stream knows what to expect: -> its id, or its refusal.
  using Submit = std::function<absl::StatusOr<RequestId>(
      const std::shared_ptr<ResultStream>& stream)>;
  // Adds the summary to the last message.
  using AddSummary = std::function<void(const Summary& summary, Response& to)>;

  // `submit` reads a text of `text_bytes`, 0 if it reads none; a long one makes
  // it run later, on the thread for that. What it refers to lives as long as
  // the call.
  static ResultStream* Start(absl::string_view method, ServiceContext& services,
                             grpc::CallbackServerContext& context,
                             size_t text_bytes, Submit submit,
                             AddSummary add_summary);

  // When the client gives up, or the infinite future.
  SteadyTime deadline() const { return record_.deadline(); }

  // The answers to one piece of the request take `bytes` of memory at most.
  void ExpectPieces(size_t bytes) {
    const MutexLock lock(mutex_);
    piece_memory_ = bytes;
  }

  // Receiver: called by the engine.

  bool Ready(uint64_t tag) override;
  void OnAnswers(std::span<const Answer<R>> answers) override;

  // OutboundBudget::Waiter.

  void OnOutboundRoom() override;

  // OpenStream. Nothing is told once the request has ended.

  void GoAway(absl::Time requests_until) override;

  // Reactor: called by gRPC.

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override {
    if constexpr (TellsGoingAway<Response>) {
      services_.open_streams.Remove(*this);
    }
    const std::shared_ptr<ResultStream> self = std::move(self_);
  }

 private:
  static constexpr size_t kMaxItems = 1024;
  // The most that a summary takes, text that was held back included.
  static constexpr size_t kSummaryBytes = 8192;

  // What a paused request waits for.
  enum class Pause : uint8_t { kNone, kStream, kBudget };

  // What to do once mutex_ is released.
  struct Actions {
    OutboundBudget::Woken woken;
    RequestId wake = 0;
    const Response* write = nullptr;
    std::optional<absl::Status> finish;
  };

  ResultStream(absl::string_view method, ServiceContext& services,
               grpc::CallbackServerContext& context, AddSummary add_summary)
      : services_(services),
        record_(method, context, services),
        add_summary_(std::move(add_summary)),
        account_(ConnectionOf(context)),
        progress_(nullptr),
        queue_(std::min(kCoalescedBytes, services.max_message_bytes)) {}

  // Begins, at once or where its turn for a long text comes.
  void Enter(ClientId client, size_t text_bytes, Submit submit);
  void Begin(const Submit& submit);

  // Ends a call whose request the engine has not taken up.
  void Refuse(const absl::Status& refusal);

  void Note(const Answer<R>& answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool Broken() {
    const MutexLock lock(mutex_);
    return progress_.broken();
  }

  // The request may be under way, and its client gone, by now.
  void SetId(RequestId id);

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // Of large pieces, one is sent while another is made.
    const size_t bound = std::max(kOutboundBytes, 2 * piece_memory_);
    return waiting_items_ < kMaxItems &&
           queue_.memory() + piece_memory_ <= bound;
  }

  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Lets the engine ask again whether the stream is ready.
  void GoOn(Actions& actions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pause_ = Pause::kNone;
    actions.wake = id_;
    wake_due_ = id_ == 0;
  }

  void Act(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_);

  ServiceContext& services_;
  CallRecord record_;
  const AddSummary add_summary_;
  std::shared_ptr<ResultStream> self_;  // from Start to OnDone
  TurnTicket ticket_ = 0;               // constant once Start has returned

  Mutex mutex_;
  OutboundBudget::Account account_ ABSL_GUARDED_BY(mutex_);
  CallProgress progress_ ABSL_GUARDED_BY(mutex_);
  OutboundQueue<Response> queue_ ABSL_GUARDED_BY(mutex_);
  size_t piece_memory_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t waiting_items_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t position_ ABSL_GUARDED_BY(mutex_) = 0;    // of the latest item
  bool going_away_ ABSL_GUARDED_BY(mutex_) = false;  // the client is told
  RequestId id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  Pause pause_ ABSL_GUARDED_BY(mutex_) = Pause::kNone;
  bool wake_due_ ABSL_GUARDED_BY(mutex_) = false;  // when its id is known
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_RESULT_STREAM_H_
