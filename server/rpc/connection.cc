#include "server/rpc/connection.h"

#include "absl/hash/hash.h"

namespace steadystate {

// The peer's address has the port that the connection comes from.
ClientId ClientOf(absl::string_view connection) {
  const ClientId id = absl::HashOf(connection);
  return id == 0 ? 1 : id;
}

ClientId ConnectionOf(const grpc::CallbackServerContext& context) {
  return ClientOf(context.peer());
}

}  // namespace steadystate
