#ifndef STEADYSTATE_SERVER_RPC_SCORE_CALL_H_
#define STEADYSTATE_SERVER_RPC_SCORE_CALL_H_

#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "steadystate/v1/generation.pb.h"

namespace steadystate {

// Starts a Score call, which then owns itself (result_stream.h).
grpc::ServerWriteReactor<v1::ScoreResponse>* StartScore(
    ServiceContext& services, grpc::CallbackServerContext& context,
    const v1::ScoreRequest& request);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_SCORE_CALL_H_
