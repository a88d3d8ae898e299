#ifndef STEADYSTATE_SERVER_RPC_REFLECTION_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_REFLECTION_SERVICE_H_

#include <string>
#include <vector>

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"

namespace steadystate {

// grpc.reflection.v1alpha for the messages that are linked in. gRPC's own takes
// a thread for each stream, for as long as the client likes: a few idle
// streams take all that there are. Here a stream takes none, and no more memory
// than one request and one answer. Thread-safe.
class ReflectionService final
    : public grpc::reflection::v1alpha::ServerReflection::CallbackService {
 public:
  // `services` are the full names to list.
  explicit ReflectionService(std::vector<std::string> services);

  grpc::ServerBidiReactor<grpc::reflection::v1alpha::ServerReflectionRequest,
                          grpc::reflection::v1alpha::ServerReflectionResponse>*
  ServerReflectionInfo(grpc::CallbackServerContext* context) override;

 private:
  const std::vector<std::string> services_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_REFLECTION_SERVICE_H_
