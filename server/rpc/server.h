#ifndef STEADYSTATE_SERVER_RPC_SERVER_H_
#define STEADYSTATE_SERVER_RPC_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/listener.h"
#include "server/engine/engine.h"
#include "server/metrics/health.h"
#include "server/metrics/metrics.h"

namespace steadystate {

struct ServerOptions {
  // HOST:PORT; port 0 picks a free one.
  std::string listen = "127.0.0.1:50051";
  // Largest message either way, [64 KiB, 1 GiB]. Clients have limits of their
  // own: gRPC's default for what they receive is 4 MiB.
  size_t max_message_bytes = size_t{4} << 20;
  // Most steps of one message of StreamStep, [1, 2^20].
  size_t max_steps_per_message = 1024;
  // Memory that answers may take until they are sent, of all connections
  // together, [16 MiB, 1 TiB]. A quarter is for what each
  // call has of its own, 32 KiB; one connection has a ninth of the rest at
  // most.
  uint64_t max_outbound_bytes = uint64_t{256} << 20;
  // What gRPC may hold of messages that have not ended or are not asked for, of
  // all connections, or 16 of the largest messages if that is more. A
  // connection that holds more of it than it leaves is cut off.
  uint64_t max_unfinished_bytes = uint64_t{512} << 20;
  // Streams that one connection may have open, [1, 2^31). What a client
  // opens beyond that waits within the client.
  size_t max_concurrent_streams = 1024;
  // Connections that may be open in all and from one peer (ConnectionCaps); 0
  // for what the limit of open files allows.
  uint64_t max_connections = 0;
  uint64_t max_connections_per_peer = 0;
  // Whether clients may ask for the services' descriptions.
  bool reflection = true;
};

// INVALID_ARGUMENT if an option is out of range.
absl::Status ValidateServerOptions(const ServerOptions& options);

// The gRPC server: steadystate.v1's services on an engine, grpc.health.v1, and
// reflection. Thread-safe.
class Server {
 public:
  // Listens and answers. INVALID_ARGUMENT if an option is out of range,
  // UNAVAILABLE if the address cannot be had, the message naming it. `engine`
  // and `metrics` outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, Engine& engine, Metrics& metrics);

  // The same, on the address of `options` that was taken before (Bind).
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const ServerOptions& options, Listener listener, Engine& engine,
      Metrics& metrics);

  // Shuts down at once if Shutdown has not been called.
  ~Server();

  // The port that is listened on.
  int port() const;

  // What grpc.health.v1 says of it, and why; never kLoading.
  ServerHealth health() const;

  // Says that the end is near, and waits: health turns NOT_SERVING, each
  // StreamStep stream and each generation is told (going_away), and for `lag`
  // all is served as before, so that balancers can send clients elsewhere
  // first. Before Shutdown.
  void AnnounceShutdown(absl::Duration lag);

  // Ends service in order: health turns NOT_SERVING; new sessions and requests
  // are refused with DRAINING; requests that were accepted get up to
  // `drain_timeout`, then they are cancelled; connections are closed.
  // OK when all of that is done. DEADLINE_EXCEEDED if gRPC did not come to an
  // end within a few seconds after the timeout: the process must then be ended
  // without destroying anything. Call once.
  absl::Status Shutdown(absl::Duration drain_timeout);

 private:
  struct State;
  explicit Server(std::shared_ptr<State> state);
  // Shared with the thread that ends gRPC, which may not come to an end.
  std::shared_ptr<State> state_;
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_SERVER_H_
