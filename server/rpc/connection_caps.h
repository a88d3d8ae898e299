#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_CAPS_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_CAPS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace steadystate {

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

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_CAPS_H_
