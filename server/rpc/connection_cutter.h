#ifndef STEADYSTATE_SERVER_RPC_CONNECTION_CUTTER_H_
#define STEADYSTATE_SERVER_RPC_CONNECTION_CUTTER_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "server/base/mutex.h"
#include "server/rpc/connection_table.h"

namespace steadystate {

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

#endif  // STEADYSTATE_SERVER_RPC_CONNECTION_CUTTER_H_
