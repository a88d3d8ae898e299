#ifndef STEADYSTATE_SERVER_RPC_GENERATE_CALL_H_
#define STEADYSTATE_SERVER_RPC_GENERATE_CALL_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// Starts a Generate call, which then owns itself (result_stream.h).
grpc::ServerWriteReactor<v1::GenerateResponse>* StartGenerate(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_GENERATE_CALL_H_
