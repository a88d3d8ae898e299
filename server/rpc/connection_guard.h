#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_

#include "server/metrics/metrics.h"
#include "server/rpc/connection_conduct.h"
#include "server/rpc/connection_counters.h"
#include "server/rpc/connection_table.h"

namespace steadystate {

// Cuts off connections whose conduct ConnectionConduct does not allow. It sees
// what the system counts of a connection's bytes, at some 0.5 us a connection,
// and asks gRPC for its own counts only where many have come. Whoever does
// nothing wrong but is not found there is left alone. Thread-compatible.
class ConnectionGuard {
 public:
  // Watches over the connections of the server that was started last.
  // `metrics` outlives the guard.
  ConnectionGuard(const ConductLimits& limits, Metrics& metrics);

  void Inspect(ConnectionTable& table);

 private:
  void FindSockets(ConnectionTable& table);
  void Inspect(ConnectionTable::Connection& connection, uint64_t bytes);

  const ConductLimits limits_;
  Metrics& metrics_;
  ConnectionCounters counters_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_
