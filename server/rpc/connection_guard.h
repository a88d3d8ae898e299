#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_

#include <cstdint>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/rpc/connection.h"
#include "server/rpc/connection_conduct.h"
#include "server/rpc/connection_table.h"

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

// Cuts off the connections that are left at the end of service. gRPC, told to
// end, closes none that it is writing to: a peer that does not read would hold
// it, and the calls on that connection, for as long as it likes.
class ConnectionCutter {
 public:
  // Cuts off what is open of `table` after `grace`, on a thread of its own.
  ConnectionCutter(ConnectionTable table, absl::Duration grace);
  // Cuts off no more.
  ~ConnectionCutter();
  ConnectionCutter(const ConnectionCutter&) = delete;
  ConnectionCutter& operator=(const ConnectionCutter&) = delete;

 private:
  void Run(absl::Duration grace);
  // Whether it is the end, or comes before so much time has passed.
  bool EndsWithin(absl::Duration duration) ABSL_LOCKS_EXCLUDED(mutex_);

  ConnectionTable table_;  // the thread's own

  Mutex mutex_;
  CondVar ended_changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses the above
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_GUARD_H_
