#ifndef STEADYSTATE_SERVER_RPC_UNARY_H_
#define STEADYSTATE_SERVER_RPC_UNARY_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/call_record.h"
#include "server/rpc/connection.h"
#include "server/rpc/outbound_budget.h"
#include "server/rpc/service_context.h"
#include "server/rpc/turn_threads.h"

namespace steadystate {

// What `handler`, () -> absl::Status, says, unless the `response` that it has
// filled in is larger than messages may be.
template <typename Response, typename Handler>
absl::Status CarryOut(const ServiceContext& services, const Response& response,
                      const Handler& handler) {
  absl::Status status = handler();
  if (!status.ok()) return status;
  const size_t bytes = response.ByteSizeLong();
  if (bytes <= services.max_message_bytes) return status;
  return MessageTooLarge(bytes, services.max_message_bytes);
}

// What a unary call takes, about.
struct UnaryCost {
  size_t work = 0;    // what there is to do, by the measure of texts: bytes
  size_t answer = 0;  // bytes of memory
};

// Carries out a unary method that needs no computation: `handler`, () ->
// absl::Status, fills in `response`. Times, counts and maps errors in the same
// way for all of them.
template <typename Response, typename Handler>
grpc::ServerUnaryReactor* AnswerUnary(ServiceContext& services,
                                      grpc::CallbackServerContext& context,
                                      absl::string_view method,
                                      const Response& response,
                                      const Handler& handler) {
  CallRecord record(method, context, services);
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  reactor->Finish(record.End(CarryOut(services, response, handler)));
  return reactor;
}

// One unary call whose handler takes long, or whose answer may be large: it
// waits until there is room for the answer, which it holds until that is sent;
// then for its turn on a thread for what takes long. If its client goes before,
// it ends at once. The object owns itself from Start to OnDone, which gRPC
// calls after OnCancel; the budget and the thread share it.
template <typename Response, typename Handler>
class LongUnaryCall final
    : public grpc::ServerUnaryReactor,
      public OutboundBudget::Waiter,
      public std::enable_shared_from_this<LongUnaryCall<Response, Handler>> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  static LongUnaryCall* Start(ServiceContext& services,
                              grpc::CallbackServerContext& context,
                              absl::string_view method, UnaryCost cost,
                              const Response& response, Handler handler) {
    const std::shared_ptr<LongUnaryCall> call(new LongUnaryCall(
        services, context, method, cost, response, std::move(handler)));
    call->self_ = call;
    if (services.outbound.Reserve(call->account_, cost.answer, call)) {
      call->OnOutboundRoom();
    }
    return call.get();
  }

  // OutboundBudget::Waiter.
  void OnOutboundRoom() override {
    {
      const MutexLock lock(mutex_);
      if (cancelled_) return;  // and answered
      has_room_ = true;
    }
    const absl::StatusOr<TurnTicket> ticket = services_.texts.Run(
        ConnectionOf(context_), cost_.work,
        [self = this->shared_from_this()](const absl::Status& turn) {
          self->Answer(turn);
        });
    if (!ticket.ok()) {
      Answer(ticket.status());
      return;
    }
    MayPark("LongUnaryCall::OnOutboundRoom");
    bool forget = false;
    {
      const MutexLock lock(mutex_);
      ticket_ = *ticket;
      forget = cancelled_;
    }
    if (forget) services_.texts.Forget(*ticket);
  }

  // Reactor: called by gRPC.

  void OnCancel() override {
    bool had_room = false;
    TurnTicket ticket = 0;
    {
      const MutexLock lock(mutex_);
      cancelled_ = true;
      had_room = has_room_;
      ticket = ticket_;
    }
    if (had_room) {
      services_.texts.Forget(ticket);
    } else {
      Answer(absl::CancelledError("the client has gone"));
    }
  }

  void OnDone() override {
    const std::shared_ptr<LongUnaryCall> self = std::move(self_);
    Tell(services_.outbound.Hold(account_, 0));
  }

 private:
  LongUnaryCall(ServiceContext& services, grpc::CallbackServerContext& context,
                absl::string_view method, UnaryCost cost,
                const Response& response, Handler handler)
      : services_(services),
        context_(context),
        record_(method, context, services),
        cost_(cost),
        response_(response),
        handler_(std::move(handler)),
        account_(ConnectionOf(context)) {}

  void Answer(const absl::Status& turn) {
    absl::Status status = turn;
    if (status.ok()) {
      status = context_.IsCancelled()
                   ? absl::CancelledError("the client has gone")
                   : CarryOut(services_, response_, handler_);
    }
    if (status.ok()) {
      Tell(services_.outbound.Hold(
          account_, response_.SpaceUsedLong() + response_.ByteSizeLong()));
    }
    Tell(services_.outbound.EndReserve(account_));
    MayPark("LongUnaryCall::Answer");
    Finish(record_.End(status));
    MayPark("LongUnaryCall::Answer, finished");
  }

  ServiceContext& services_;
  grpc::CallbackServerContext& context_;
  CallRecord record_;
  const UnaryCost cost_;
  const Response& response_;
  const Handler handler_;
  std::shared_ptr<LongUnaryCall> self_;  // from Start to OnDone
  OutboundBudget::Account account_;

  Mutex mutex_;
  TurnTicket ticket_ ABSL_GUARDED_BY(mutex_) = 0;  // or none yet
  bool has_room_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
};

// As AnswerUnary, for a method whose handler has much to do or to answer: then
// it runs on a thread for that.
template <typename Response, typename Handler>
grpc::ServerUnaryReactor* AnswerLongUnary(ServiceContext& services,
                                          grpc::CallbackServerContext& context,
                                          absl::string_view method,
                                          UnaryCost cost,
                                          const Response& response,
                                          Handler handler) {
  if (cost.work <= kShortTextBytes && cost.answer <= kSmallAnswerBytes) {
    return AnswerUnary(services, context, method, response, handler);
  }
  return LongUnaryCall<Response, Handler>::Start(
      services, context, method, cost, response, std::move(handler));
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_UNARY_H_
