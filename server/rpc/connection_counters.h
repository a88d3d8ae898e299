#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_COUNTERS_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_COUNTERS_H_

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/connection_conduct.h"

namespace steadystate {

// A connection as gRPC's counters name it: "ipv4:127.0.0.1:40000".
std::string ConnectionName(const sockaddr_storage& peer);

// Reads what gRPC counts for channelz, of the server that was started last in
// this process. Costs some 10 us a connection. Thread-compatible.
class ConnectionCounters {
 public:
  ConnectionCounters();

  struct Socket {
    int64_t id = 0;
    std::string name;
  };
  // The open connections that have not been told before, and some that have.
  std::vector<Socket> NewSockets();

  // What has been counted of an open connection; nothing once it is closed.
  static std::optional<ConnectionActivity> Read(int64_t socket);

 private:
  int64_t server_ = 0;
  int64_t next_socket_ = 0;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_COUNTERS_H_
