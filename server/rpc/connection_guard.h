#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_

#include <cstdint>

#include "server/metrics/metrics.h"
#include "server/rpc/connection_conduct.h"
#include "server/rpc/connection_counters.h"
#include "server/rpc/connection_table.h"
#include "server/rpc/taken_bytes.h"

namespace steadystate {

// What has been read of the socket `fd` since it was connected, in bytes; 0 if
// the system does not say. What has arrived and nobody has come to tells
// nothing of the client: a server that was held up finds megabytes of many
// calls. The descriptor may be another file's by now: nothing is done to it.
uint64_t BytesRead(int fd);

// Cuts off connections whose conduct ConnectionConduct does not allow. It sees
// what the system counts of a connection's bytes, at some 0.5 us a connection,
// and asks gRPC for its own counts only where many have come. Whoever does
// nothing wrong but is not found there is left alone. Thread-compatible.
class ConnectionGuard {
 public:
  // Watches over the connections of the server that was started last. `taken`
  // and `metrics` outlive the guard, and `taken` also the connections.
  ConnectionGuard(const ConductLimits& limits, TakenBytes& taken,
                  Metrics& metrics);

  // A connection has been added to the table, and nothing was read of it yet.
  void Watch(ConnectionTable::Connection& connection);

  void Inspect(ConnectionTable& table);

 private:
  void FindSockets(ConnectionTable& table);
  void Inspect(ConnectionTable::Connection& connection);
  // Cuts those that hold more of messages that do not end than they leave, the
  // one that holds most first.
  void BoundUnfinished(ConnectionTable& table);
  void Cut(ConnectionTable::Connection& connection, ConnectionCut reason);

  const ConductLimits limits_;
  TakenBytes& taken_;
  Metrics& metrics_;
  ConnectionCounters counters_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_
