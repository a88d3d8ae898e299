#ifndef STEADYSTATE_SERVER_RPC_EMBED_CALL_H_
#define STEADYSTATE_SERVER_RPC_EMBED_CALL_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// Starts an Embed call, which then owns itself (result_stream.h).
grpc::ServerWriteReactor<v1::EmbedResponse>* StartEmbed(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::EmbedRequest& request);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_EMBED_CALL_H_
