#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "grpcpp/server_context.h"
#include "server/base/mutex.h"
#include "server/engine/request.h"

namespace steadystate {

// The connection of this name, which gRPC gives: "ipv4:127.0.0.1:40000".
ClientId ClientOf(absl::string_view connection);

// The connection that a call came by: the same for all of its calls, another
// one for every connection that is open at the same time. Never 0. Makes
// strings: ask once a call.
ClientId ConnectionOf(const grpc::CallbackServerContext& context);

// The bytes of messages that the server has taken from gRPC, by connection:
// what has been received of a connection beyond these, gRPC still holds.
// Thread-safe.
class TakenBytes {
 public:
  // Bytes of one connection are counted while this exists.
  class Count {
   public:
    // `client`, whose socket is `fd`, becomes one of those that are counted in
    // `bytes`.
    Count(TakenBytes& bytes, ClientId client, int fd);
    ~Count();
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;

    // Since this exists.
    uint64_t Get() const;

   private:
    TakenBytes& bytes_;
    const ClientId client_;
    uint64_t before_ = 0;  // by a connection of the same name that is closed
  };

  // A message has been taken. Counts nothing for clients without a Count.
  void Add(ClientId client, size_t bytes);

  // False if the client has a Count and its connection has ended, which gRPC
  // need not have noticed. REQUIRES: a call of it has not ended, so that its
  // socket is open.
  bool IsConnected(ClientId client) const;

 private:
  struct Client {
    uint64_t bytes = 0;
    size_t counts = 0;
    int fd = -1;  // of the last one
  };

  mutable Mutex mutex_;
  absl::flat_hash_map<ClientId, Client> clients_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_H_
