#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_H_

#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "server/engine/request.h"

namespace steadystate {

// The connection of this name, which gRPC gives: "ipv4:127.0.0.1:40000".
ClientId ClientOf(absl::string_view connection);

// The connection that a call came by: the same for all of its calls, another
// one for every connection that is open at the same time. Never 0. Makes
// strings: ask once a call.
ClientId ConnectionOf(const grpc::CallbackServerContext& context);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_H_
