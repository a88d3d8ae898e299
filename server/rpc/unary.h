#ifndef STEADYSTATE_SERVER_RPC_UNARY_H_
#define STEADYSTATE_SERVER_RPC_UNARY_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/answer.h"
#include "server/rpc/call_record.h"
#include "server/rpc/service_context.h"

namespace steadystate {

// Carries out a unary method that needs no computation: `handler`, () ->
// absl::Status, fills in `response`. Times, counts and maps errors in the same
// way for all of them.
template <typename Response, typename Handler>
grpc::ServerUnaryReactor* AnswerUnary(ServiceContext& services,
                                      grpc::CallbackServerContext& context,
                                      absl::string_view method,
                                      const Response& response,
                                      const Handler& handler) {
  CallRecord record(method, context, services.metrics);
  absl::Status status = handler();
  if (status.ok()) {
    const size_t bytes = response.ByteSizeLong();
    if (bytes > services.max_message_bytes) {
      status = MessageTooLarge(bytes, services.max_message_bytes);
    }
  }
  grpc::ServerUnaryReactor* const reactor = context.DefaultReactor();
  reactor->Finish(record.End(status));
  return reactor;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_UNARY_H_
