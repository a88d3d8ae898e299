#ifndef STEADYSTATE_SERVER_RPC_REFLECTION_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/service_context.h"
#include "server/rpc/typed_service.h"

namespace steadystate {

// grpc.reflection.v1alpha for the messages that are linked in. gRPC's own takes
// a thread for each stream, for as long as the client likes: a few idle
// streams take all that there are. Here a stream takes none, and no more memory
// than one request and one answer. Thread-safe.
class ReflectionService final : public TypedService {
 public:
  // `services` outlives this object; `names` are the full names to list.
  ReflectionService(ServiceContext& services, std::vector<std::string> names);

  grpc::ServerBidiReactor<grpc::ByteBuffer,
                          grpc::reflection::v1alpha::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context);

 private:
  const std::vector<std::string> names_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_REFLECTION_SERVICE_H_
