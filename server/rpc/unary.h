#ifndef STEADYSTATE_SERVER_RPC_UNARY_H_
#define STEADYSTATE_SERVER_RPC_UNARY_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/parking.h"
#include "server/rpc/answer.h"
#include "server/rpc/call_record.h"
#include "server/rpc/service_context.h"

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

// The same for a method whose handler reads a text of `text_bytes`, which takes
// long if the text is: then it runs on the thread for that. gRPC keeps context,
// request, response and reactor until the reactor is finished, which nobody
// else does, whatever the client does meanwhile.
template <typename Response, typename Handler>
grpc::ServerUnaryReactor* AnswerTextUnary(ServiceContext& services,
                                          grpc::CallbackServerContext& context,
                                          absl::string_view method,
                                          size_t text_bytes,
                                          const Response& response,
                                          Handler handler) {
  if (text_bytes <= kShortTextBytes) {
    return AnswerUnary(services, context, method, response, handler);
  }
  const auto record = std::make_shared<CallRecord>(method, context, services);
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  const absl::Status queued =
      services.texts.Run([&services, &context, &response, record, reactor,
                          handler](const absl::Status& turn) {
        absl::Status status = turn;
        if (status.ok()) {
          status = context.IsCancelled()
                       ? absl::CancelledError("the client has gone")
                       : CarryOut(services, response, handler);
        }
        MayPark("AnswerTextUnary");
        reactor->Finish(record->End(status));
        MayPark("AnswerTextUnary, finished");
      });
  if (!queued.ok()) reactor->Finish(record->End(queued));
  return reactor;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_UNARY_H_
