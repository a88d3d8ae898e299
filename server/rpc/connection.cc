#include "server/rpc/connection.h"

#include <string>

#include "absl/hash/hash.h"

namespace steadystate {

// The peer's address has the port that the connection comes from.
ClientId ConnectionOf(const grpc::CallbackServerContext& context) {
  const ClientId id = absl::HashOf(context.peer());
  return id == 0 ? 1 : id;
}

}  // namespace steadystate
