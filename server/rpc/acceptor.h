#ifndef STEADYSTATE_SERVER_RPC_ACCEPTOR_H_
#define STEADYSTATE_SERVER_RPC_ACCEPTOR_H_

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/base/listener.h"
#include "server/base/process.h"
#include "server/metrics/metrics.h"
#include "server/rpc/connection_guard.h"
#include "server/rpc/connection_table.h"

namespace steadystate {

// Accepts the connections that gRPC then serves, on a thread of its own. gRPC's
// own loop would end for good at the first connection for which there is no
// descriptor. This one refuses connections above its caps, by closing them at
// once, and where there is no descriptor it goes on as soon as there is one.
class Acceptor {
 public:
  // Takes an accepted connection over: a non-blocking socket, and the one that
  // it was accepted from. Called on the acceptor's thread.
  using Handler = std::function<void(Descriptor socket, int listener)>;

  // Accepts until it is stopped. `guard` watches over the connections; there
  // may be none. `metrics` outlives the acceptor. UNAVAILABLE if there are no
  // descriptors.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(
      Listener listener, const ConnectionCaps& caps, Metrics& metrics,
      Handler handler, std::unique_ptr<ConnectionGuard> guard = nullptr);
  // Stops.
  ~Acceptor();

  // Stops listening: no call of the handler is in flight afterwards. Returns
  // the connections that were open then, the first time.
  ConnectionTable Stop();

 private:
  using Clock = std::chrono::steady_clock;

  Acceptor(Listener listener, const ConnectionCaps& caps, Metrics& metrics,
           Handler handler, std::unique_ptr<ConnectionGuard> guard);
  void Run();
  // Polls until there are connections to accept, from ready_, or it is time to
  // sweep; false if it is the end.
  bool Wait();
  void AcceptFrom(int listener);
  void Take(Descriptor socket, const sockaddr_storage& address, int listener);
  bool HasRoomFor(const PeerNetwork& peer) const;
  void Sweep();
  void Inspect();
  void RefuseOne(int listener);

  Listener listener_;
  const ConnectionCaps caps_;
  Metrics& metrics_;
  const Handler handler_;
  const std::unique_ptr<ConnectionGuard> guard_;
  const WakeUp end_;

  // The thread's own.
  ConnectionTable table_;
  Descriptor spare_;  // given up to accept, and refuse, where no other is left
  Clock::time_point next_sweep_;
  Clock::time_point may_sweep_;  // not before, even where it would help
  Clock::time_point next_inspection_;
  Clock::time_point accept_again_;  // not before
  std::vector<int> ready_;

  std::thread thread_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_ACCEPTOR_H_
