#ifndef STEADYSTATE_SERVER_RPC_RESULT_STREAM_H_
#define STEADYSTATE_SERVER_RPC_RESULT_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/error.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/engine/request.h"
#include "server/rpc/answer.h"
#include "server/rpc/call_record.h"
#include "server/rpc/outbound_queue.h"
#include "server/rpc/service_context.h"
#include "server/rpc/status.h"

namespace steadystate {

// One call that streams what a request of the engine produces: Generate,
// Score or Embed. Items arrive on the compute thread and are written from there
// or, when a write is outstanding, together once it is done. While
// kOutboundBytes or kMaxItems wait, the request pauses: a client that does not
// read costs no more than that.
//
// The call is finished exactly once, after the engine's last call and the last
// write. The object owns itself from its creation to the reactor's OnDone,
// which gRPC calls when OnWriteDone and OnCancel have returned; who calls it
// from another thread, the engine and the thread for long texts, shares it for
// as long as it does. Lock order: the engine is never called with mutex_ held.
template <typename Response, typename Item, typename Summary>
class ResultStream : public grpc::ServerWriteReactor<Response>,
                     public Sink<Item, Summary> {
 public:
  // Hands a request to the engine: (deadline, sink) -> its id, or its refusal.
  using Submit = std::function<absl::StatusOr<RequestId>(
      SteadyTime deadline, std::shared_ptr<Sink<Item, Summary>> sink)>;
  // Adds the summary to the last message.
  using AddSummary = std::function<void(const Summary& summary, Response& to)>;

  // `submit` reads a text of `text_bytes`, 0 if it reads none; a long one makes
  // it run later, on the thread for that. What it refers to lives as long as
  // the call.
  static ResultStream* Start(absl::string_view method, ServiceContext& services,
                             grpc::CallbackServerContext& context,
                             size_t text_bytes, Submit submit,
                             AddSummary add_summary) {
    const std::shared_ptr<ResultStream> stream(
        new ResultStream(method, services, context, std::move(add_summary)));
    stream->self_ = stream;
    if (text_bytes <= kShortTextBytes) {
      stream->Begin(submit);
      return stream.get();
    }
    const absl::Status queued = services.texts.Run(
        [stream, submit = std::move(submit)](const absl::Status& turn) {
          if (turn.ok()) {
            stream->Begin(submit);
          } else {
            stream->OnDone(turn);
          }
        });
    if (!queued.ok()) stream->OnDone(queued);
    return stream.get();
  }

  // Sink: called by the engine.

  bool Ready() override {
    const MutexLock lock(mutex_);
    paused_ = !broken_ && !HasRoom();
    return !paused_;
  }

  void OnItem(Item item) override {
    Actions actions;
    {
      const MutexLock lock(mutex_);
      if (broken_) return;
      ToProto(item, queue_.RoomFor(WireBytes(item)));
      ++waiting_items_;
      actions = Decide();
    }
    Act(actions);
  }

  void OnDone(absl::StatusOr<Summary> summary) override {
    Actions actions;
    {
      const MutexLock lock(mutex_);
      if (summary.ok()) add_summary_(*summary, queue_.RoomFor(kSummaryBytes));
      end_ = std::move(summary).status();
      actions = Decide();
    }
    Act(actions);
  }

  // Reactor: called by gRPC.

  void OnWriteDone(bool ok) override {
    Actions actions;
    {
      const MutexLock lock(mutex_);
      writing_ = false;
      queue_.WriteDone();
      if (!ok) broken_ = true;
      actions = Decide();
    }
    Act(actions);
  }

  void OnCancel() override {
    Actions actions;
    RequestId id = 0;
    {
      const MutexLock lock(mutex_);
      broken_ = true;
      id = id_;
      actions = Decide();
    }
    services_.engine.Cancel(id);
    Act(actions);
  }

  void OnDone() override {
    const std::shared_ptr<ResultStream> self = std::move(self_);
  }

 private:
  static constexpr size_t kMaxItems = 1024;
  // The most that a summary takes, text that was held back included.
  static constexpr size_t kSummaryBytes = 8192;

  // What to do once mutex_ is released.
  struct Actions {
    RequestId wake = 0;
    const Response* write = nullptr;
    std::optional<absl::Status> finish;
  };

  ResultStream(absl::string_view method, ServiceContext& services,
               grpc::CallbackServerContext& context, AddSummary add_summary)
      : services_(services),
        record_(method, context, services),
        add_summary_(std::move(add_summary)),
        queue_(std::min(kCoalescedBytes, services.max_message_bytes)) {}

  void Begin(const Submit& submit) {
    absl::StatusOr<RequestId> id = absl::CancelledError("the client has gone");
    if (!Broken()) id = submit(record_.deadline(), self_);
    MayPark("ResultStream::Begin");
    if (id.ok()) {
      SetId(*id);
    } else {
      OnDone(std::move(id).status());
    }
  }

  bool Broken() {
    const MutexLock lock(mutex_);
    return broken_;
  }

  // The request may be under way, and its client gone, by now.
  void SetId(RequestId id) {
    bool wake = false;
    bool cancel = false;
    {
      const MutexLock lock(mutex_);
      id_ = id;
      wake = wake_due_;
      cancel = broken_;
    }
    if (wake) services_.engine.Wake(id);
    if (cancel) services_.engine.Cancel(id);
  }

  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queue_.bytes() < kOutboundBytes && waiting_items_ < kMaxItems;
  }

  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Actions actions;
    if (broken_) queue_.Clear();
    if (!writing_ && !queue_.empty()) {
      writing_ = true;
      actions.write = &queue_.Next();
    }
    if (queue_.empty()) waiting_items_ = 0;
    if (paused_ && (broken_ || HasRoom())) {
      paused_ = false;
      actions.wake = id_;
      wake_due_ = id_ == 0;
    }
    if (end_.has_value() && !writing_ && !finished_) {
      finished_ = true;
      actions.finish = *end_;
    }
    return actions;
  }

  void Act(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_) {
    MayPark("ResultStream::Act");
    if (actions.wake != 0) services_.engine.Wake(actions.wake);
    if (actions.write != nullptr) {
      this->StartWrite(actions.write);
      MayPark("ResultStream::Act, write started");
    }
    // The last thing that happens: the call may be over afterwards.
    if (actions.finish.has_value()) {
      this->Finish(record_.End(*actions.finish));
      MayPark("ResultStream::Act, finished");
    }
  }

  ServiceContext& services_;
  CallRecord record_;
  const AddSummary add_summary_;
  std::shared_ptr<ResultStream> self_;  // from Start to OnDone

  Mutex mutex_;
  OutboundQueue<Response> queue_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_items_ ABSL_GUARDED_BY(mutex_) = 0;
  RequestId id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;    // by us; wants to be woken
  bool wake_due_ ABSL_GUARDED_BY(mutex_) = false;  // when its id is known
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;    // nobody hears us any more
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_RESULT_STREAM_H_
