#ifndef STEADYSTATE_SERVER_RPC_RESULT_STREAM_INL_H_
#define STEADYSTATE_SERVER_RPC_RESULT_STREAM_INL_H_

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/result_stream.h"

namespace steadystate {

template <typename Response, typename R>
ResultStream<Response, R>* ResultStream<Response, R>::Start(
    absl::string_view method, ServiceContext& services,
    grpc::CallbackServerContext& context, size_t text_bytes, Submit submit,
    AddSummary add_summary) {
  const std::shared_ptr<ResultStream> stream(
      new ResultStream(method, services, context, std::move(add_summary)));
  stream->self_ = stream;
  stream->Enter(ConnectionOf(context), text_bytes, std::move(submit));
  // gRPC calls OnDone after this has returned, whatever has happened by now.
  if constexpr (TellsGoingAway<Response>) services.open_streams.Add(*stream);
  return stream.get();
}

template <typename Response, typename R>
void ResultStream<Response, R>::Enter(ClientId client, size_t text_bytes,
                                      Submit submit) {
  if (text_bytes <= kShortTextBytes) {
    Begin(submit);
    return;
  }
  const absl::StatusOr<TurnTicket> ticket = services_.texts.Run(
      client, text_bytes,
      [stream = self_, submit = std::move(submit)](const absl::Status& turn) {
        if (turn.ok()) {
          stream->Begin(submit);
        } else {
          stream->Refuse(turn);
        }
      });
  if (ticket.ok()) {
    ticket_ = *ticket;
  } else {
    Refuse(ticket.status());
  }
}

template <typename Response, typename R>
bool ResultStream<Response, R>::Ready(uint64_t /*tag*/) {
  Actions actions;
  bool ready = false;
  {
    const MutexLock lock(mutex_);
    if (!progress_.broken() && !HasRoom()) {
      pause_ = Pause::kStream;
      actions.woken = services_.outbound.EndReserve(account_);
    } else if (!progress_.broken() &&
               !services_.outbound.Reserve(account_, piece_memory_, self_)) {
      pause_ = Pause::kBudget;
    } else {
      pause_ = Pause::kNone;
    }
    ready = pause_ == Pause::kNone;
  }
  Act(actions);
  return ready;
}

template <typename Response, typename R>
void ResultStream<Response, R>::OnAnswers(std::span<const Answer<R>> answers) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    for (const Answer<R>& answer : answers) Note(answer);
    actions = Decide();
  }
  Act(actions);
}

template <typename Response, typename R>
void ResultStream<Response, R>::Note(const Answer<R>& answer) {
  if (!progress_.broken()) {
    for (const typename R::Item& item : answer.items) {
      ToProto(item, queue_.RoomFor(WireBytes(item)));
    }
    waiting_items_ += answer.items.size();
    if constexpr (TellsGoingAway<Response>) {
      if (!answer.items.empty()) position_ = answer.items.back().position;
    }
  }
  if (answer.end == nullptr) return;
  if (answer.end->ok()) {
    add_summary_(**answer.end, queue_.RoomFor(kSummaryBytes));
  }
  end_ = answer.end->status();
  progress_.End();
}

template <typename Response, typename R>
void ResultStream<Response, R>::Refuse(const absl::Status& refusal) {
  absl::StatusOr<Summary> end = refusal;
  const Answer<R> answer = {.end = &end};
  OnAnswers({&answer, 1});
}

template <typename Response, typename R>
void ResultStream<Response, R>::OnOutboundRoom() {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    if (pause_ == Pause::kBudget) GoOn(actions);
  }
  Act(actions);
}

template <typename Response, typename R>
void ResultStream<Response, R>::GoAway(absl::Time requests_until) {
  if constexpr (TellsGoingAway<Response>) {
    Actions actions;
    {
      const MutexLock lock(mutex_);
      if (going_away_ || progress_.broken() || end_.has_value()) return;
      going_away_ = true;
      Response& message = queue_.RoomFor(kGoingAwayBytes);
      ToProto(requests_until, *message.mutable_going_away());
      message.set_position(position_);
      actions = Decide();
    }
    Act(actions);
  }
}

template <typename Response, typename R>
void ResultStream<Response, R>::OnWriteDone(bool ok) {
  Actions actions;
  {
    const MutexLock lock(mutex_);
    progress_.WriteDone();
    queue_.WriteDone();
    if (!ok) progress_.Break();
    actions = Decide();
  }
  Act(actions);
}

template <typename Response, typename R>
void ResultStream<Response, R>::OnCancel() {
  Actions actions;
  RequestId id = 0;
  {
    const MutexLock lock(mutex_);
    progress_.Break();
    id = id_;
    actions = Decide();
  }
  services_.texts.Forget(ticket_);
  services_.engine.Cancel(id);
  Act(actions);
}

template <typename Response, typename R>
void ResultStream<Response, R>::Begin(const Submit& submit) {
  absl::StatusOr<RequestId> id = absl::CancelledError("the client has gone");
  if (!Broken()) id = submit(self_);
  MayPark("ResultStream::Begin");
  if (id.ok()) {
    SetId(*id);
  } else {
    Refuse(id.status());
  }
}

template <typename Response, typename R>
void ResultStream<Response, R>::SetId(RequestId id) {
  bool wake = false;
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    id_ = id;
    wake = wake_due_;
    cancel = progress_.broken();
  }
  if (wake) services_.engine.Wake(id);
  if (cancel) services_.engine.Cancel(id);
}

template <typename Response, typename R>
typename ResultStream<Response, R>::Actions
ResultStream<Response, R>::Decide() {
  Actions actions;
  const bool broken = progress_.broken();
  if (broken) queue_.Clear();
  if (progress_.BeginWrite(!queue_.empty())) actions.write = &queue_.Next();
  if (queue_.empty()) waiting_items_ = 0;
  if ((pause_ == Pause::kStream && HasRoom()) ||
      (pause_ != Pause::kNone && broken)) {
    GoOn(actions);
  }
  actions.woken = services_.outbound.Hold(account_, queue_.memory());
  if (broken || end_.has_value()) {
    OutboundBudget::Woken more = services_.outbound.EndReserve(account_);
    std::move(more.begin(), more.end(), std::back_inserter(actions.woken));
  }
  // The engine is heard to the end, whoever else still listens.
  if (progress_.BeginFinish(!end_.has_value())) actions.finish = *end_;
  return actions;
}

template <typename Response, typename R>
void ResultStream<Response, R>::Act(const Actions& actions) {
  MayPark("ResultStream::Act");
  Tell(actions.woken);
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

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_RESULT_STREAM_INL_H_
