#ifndef STEADYSTATE_SERVER_RPC_TYPED_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_TYPED_SERVICE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/codegen/server_callback_handlers.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/parking.h"
#include "server/rpc/call_record.h"
#include "server/rpc/connection.h"
#include "server/rpc/received.h"
#include "server/rpc/service_context.h"
#include "server/rpc/unary.h"

namespace steadystate {

// Lets `handler` carry out a method with requests that have been read. A large
// one is read on the thread for that, where the handler then runs, too. gRPC
// keeps a call until its handler has run, however late, and tells nothing of
// its end before; what it hands over is copied.
template <typename Request>
class ReadingHandler final : public grpc::internal::MethodHandler {
 public:
  // `services` outlives this object.
  ReadingHandler(ServiceContext& services,
                 std::unique_ptr<grpc::internal::MethodHandler> handler)
      : services_(services), handler_(std::move(handler)) {}

  void* Deserialize(grpc_call* call, grpc_byte_buffer* bytes,
                    grpc::Status* status, void** handler_data) override {
    return handler_->Deserialize(call, bytes, status, handler_data);
  }

  void RunHandler(const HandlerParameter& parameter) override {
    auto& received = *static_cast<Received<Request>*>(parameter.request);
    const auto& context =
        *static_cast<grpc::CallbackServerContext*>(parameter.server_context);
    const ClientId client = ConnectionOf(context);
    services_.taken.Add(client, received.bytes);
    if (!received.unread.Valid()) {
      handler_->RunHandler(parameter);
      return;
    }
    const SteadyTime arrived = services_.engine.clock().Now();
    const auto read = [this, client, arrived, &context, &received,
                       parameter](const absl::Status& turn) {
      received.status = turn.ok() ? CheckWanted(client, context) : turn;
      if (received.status.ok()) {
        received.status = ReadRequest(received.unread, received.message);
      }
      received.unread.Clear();
      const ArrivedAt at(arrived);
      handler_->RunHandler(parameter);
    };
    const absl::StatusOr<TurnTicket> ticket =
        services_.reading.Run(client, received.bytes, read);
    // The call may be over by now.
    MayPark("ReadingHandler::RunHandler");
    if (!ticket.ok()) read(ticket.status());
  }

 private:
  // OK if somebody waits for the answer, as far as can be told: of a call that
  // was cancelled by itself gRPC says nothing yet.
  absl::Status CheckWanted(ClientId client,
                           const grpc::CallbackServerContext& context) const {
    if (context.deadline() <= std::chrono::system_clock::now()) {
      return absl::DeadlineExceededError("the deadline passed");
    }
    if (!services_.taken.IsConnected(client)) {
      return absl::CancelledError("the client has gone");
    }
    return absl::OkStatus();
  }

  ServiceContext& services_;
  const std::unique_ptr<grpc::internal::MethodHandler> handler_;
};

// A call that ends with a status and nothing else. Deletes itself.
template <typename Response>
class RefusedStream final : public grpc::ServerWriteReactor<Response> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

// A service whose requests are read by us (received.h): the classes that protoc
// generates let gRPC do it. A method is a member of the derived class, which
// adds each of them under its path, a literal, "/package.Service/Method", in
// its constructor. They are called with requests that could be read; the others
// are answered here. Thread-safe once it is constructed.
class TypedService : public grpc::Service {
 protected:
  template <typename Owner, typename Request, typename Response>
  using Unary = grpc::ServerUnaryReactor* (
      Owner::*)(grpc::CallbackServerContext*, const Request*, Response*);
  template <typename Owner, typename Request, typename Response>
  using ServerStream = grpc::ServerWriteReactor<Response>* (
      Owner::*)(grpc::CallbackServerContext*, const Request*);
  template <typename Owner, typename Response>
  using RawClientStream = grpc::ServerReadReactor<grpc::ByteBuffer>* (
      Owner::*)(grpc::CallbackServerContext*, Response*);
  template <typename Owner, typename Response>
  using RawBidi = grpc::ServerBidiReactor<grpc::ByteBuffer, Response>* (
      Owner::*)(grpc::CallbackServerContext*);

  // `services` outlives this object.
  explicit TypedService(ServiceContext& services) : services_(services) {}

  template <typename Owner, typename Request, typename Response>
  void Add(const char* path, Unary<Owner, Request, Response> method) {
    AddReadingHandler<Request>(
        path, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::CallbackUnaryHandler<Received<Request>, Response>(
            [this, path, method](grpc::CallbackServerContext* context,
                                 const Received<Request>* request,
                                 Response* response) {
              if (request->status.ok()) {
                return (static_cast<Owner*>(this)->*method)(
                    context, &request->message, response);
              }
              return AnswerUnary(services_, *context, path + 1, *response,
                                 [request] { return request->status; });
            }));
  }

  template <typename Owner, typename Request, typename Response>
  void Add(const char* path, ServerStream<Owner, Request, Response> method) {
    using Reactor = grpc::ServerWriteReactor<Response>;
    AddReadingHandler<Request>(
        path, grpc::internal::RpcMethod::SERVER_STREAMING,
        new grpc::internal::CallbackServerStreamingHandler<Received<Request>,
                                                           Response>(
            [this, path, method](grpc::CallbackServerContext* context,
                                 const Received<Request>* request) -> Reactor* {
              if (request->status.ok()) {
                return (static_cast<Owner*>(this)->*method)(context,
                                                            &request->message);
              }
              CallRecord record(path + 1, *context, services_);
              return new RefusedStream<Response>(record.End(request->status));
            }));
  }

  // A unary method that ends with what `refusal`, () -> absl::Status, says.
  // `Message`: any that has no required parts.
  template <typename Message, typename Refusal>
  void Refuse(const char* path, const Refusal& refusal) {
    AddReadingHandler<Message>(
        path, grpc::internal::RpcMethod::NORMAL_RPC,
        new grpc::internal::CallbackUnaryHandler<Received<Message>, Message>(
            [this, path, refusal](grpc::CallbackServerContext* context,
                                  const Received<Message>* /*request*/,
                                  Message* response) {
              return AnswerUnary(services_, *context, path + 1, *response,
                                 refusal);
            }));
  }

  // The messages of these streams come as they are.
  template <typename Owner, typename Response>
  void Add(const char* path, RawClientStream<Owner, Response> method) {
    AddHandler(
        path, grpc::internal::RpcMethod::CLIENT_STREAMING,
        new grpc::internal::CallbackClientStreamingHandler<grpc::ByteBuffer,
                                                           Response>(
            [this, method](grpc::CallbackServerContext* context,
                           Response* response) {
              return (static_cast<Owner*>(this)->*method)(context, response);
            }));
  }

  template <typename Owner, typename Response>
  void Add(const char* path, RawBidi<Owner, Response> method) {
    AddHandler(
        path, grpc::internal::RpcMethod::BIDI_STREAMING,
        new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Response>(
            [this, method](grpc::CallbackServerContext* context) {
              return (static_cast<Owner*>(this)->*method)(context);
            }));
  }

  ServiceContext& services_;

 private:
  // Takes `handler`.
  template <typename Request>
  void AddReadingHandler(const char* path,
                         grpc::internal::RpcMethod::RpcType type,
                         grpc::internal::MethodHandler* handler) {
    AddHandler(path, type,
               new ReadingHandler<Request>(
                   services_,
                   std::unique_ptr<grpc::internal::MethodHandler>(handler)));
  }

  // Takes `handler`.
  void AddHandler(const char* path, grpc::internal::RpcMethod::RpcType type,
                  grpc::internal::MethodHandler* handler) {
    AddMethod(new grpc::internal::RpcServiceMethod(path, type, nullptr));
    MarkMethodCallback(count_++, handler);
  }

  int count_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_TYPED_SERVICE_H_
