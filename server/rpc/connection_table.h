#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_TABLE_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_TABLE_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/rpc/connection.h"
#include "server/rpc/connection_conduct.h"

namespace steadystate {

// What counts as one peer: an IPv4 address, or the first half of an IPv6
// address, all of whose second halves belong to one network.
struct PeerNetwork {
  bool ipv6 = false;
  uint64_t bits = 0;

  bool operator==(const PeerNetwork&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const PeerNetwork& peer) {
    return H::combine(std::move(state), peer.ipv6, peer.bits);
  }
};

// The peer of an address; an IPv4 address within an IPv6 one is the former.
PeerNetwork PeerOf(const sockaddr_storage& address);

// The connections that are open, although gRPC owns their sockets and tells
// nobody when it closes one. What tells is the descriptor: its number is free
// then, or stands for another file. Asking takes some 0.3 us a connection, so
// it is done now and then. Thread-compatible.
class ConnectionTable {
 public:
  struct Connection {
    int fd = -1;
    ino_t inode = 0;  // of the socket; no other one has it
    PeerNetwork peer;
    std::string name;  // as gRPC's counters name it
    // For the guard: where gRPC counts for it, 0 if not found yet; what it has
    // received when last looked at; and what it did until then.
    int64_t counters = 0;
    uint64_t bytes_seen = 0;
    std::unique_ptr<TakenBytes::Count> taken;
    ConnectionConduct conduct;
    bool cut = false;  // off; gRPC has not noticed yet
  };

  size_t size() const { return connections_.size(); }
  // The open connections of one peer.
  size_t CountOf(const PeerNetwork& peer) const;

  // Notes the connection whose socket is `fd`, which must be open. It is valid
  // until the next call.
  Connection& Add(int fd, const PeerNetwork& peer, std::string name);
  // Forgets the connections that have been closed.
  void Sweep();

  std::vector<Connection>& connections() { return connections_; }
  // Ends a connection at once: what it has sent and nobody has read is lost.
  // gRPC finds it broken, and closes it. False if it has been closed already,
  // or there is no descriptor to reach it by.
  static bool Cut(const Connection& connection);

 private:
  static bool IsOpen(const Connection& connection);
  void Forget(const PeerNetwork& peer);

  std::vector<Connection> connections_;
  absl::flat_hash_map<PeerNetwork, size_t> counts_;
};

// How many connections may be open at a time, both at least 1.
struct ConnectionCaps {
  size_t in_all = 0;
  // Those of one peer: an IPv4 address, or the 64 bits that a network's part
  // of an IPv6 address has.
  size_t per_peer = 0;
};

// Descriptors that are kept for everything else (gRPC's own, the metrics port,
// files), of `limit` that the process may open: an eighth, but at least 48 and
// at most 256.
size_t ReservedDescriptors(uint64_t limit);

// The caps for a process that may open `descriptor_limit` descriptors.
// `max_connections` 0 stands for all that the reserve leaves, and
// `max_connections_per_peer` 0 for half of the connections, so that no single
// peer takes them all. INVALID_ARGUMENT if another value does not fit, the
// message naming it and the bound.
absl::StatusOr<ConnectionCaps> ResolveConnectionCaps(
    uint64_t max_connections, uint64_t max_connections_per_peer,
    uint64_t descriptor_limit);

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_TABLE_H_
