#ifndef STEADYSTATE_SERVER_RPC_HEALTH_SERVICE_H_
#define STEADYSTATE_SERVER_RPC_HEALTH_SERVICE_H_

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpc/health/v1/health.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/base/mutex.h"
#include "server/engine/engine.h"
#include "server/metrics/health.h"
#include "server/metrics/metrics.h"
#include "server/rpc/service_context.h"
#include "server/rpc/typed_service.h"

namespace steadystate {

// How old the heartbeat of an engine becomes whose compute thread does not move
// any more. Of a healthy one it is not much older than a second.
inline constexpr absl::Duration kMaxHeartbeatAge = absl::Seconds(5);

// Looks at the engine's heartbeat twice a second, on a thread of its own that
// waits for nobody: tells the metrics its age, and a listener when it has
// become too old and when it moves again. Thread-safe.
class HeartbeatWatch {
 public:
  // `on_change(alive)` is called on the watch's thread, for the first time when
  // the heartbeat is too old; it must not block. All outlive the watch, or
  // Stop.
  HeartbeatWatch(const Engine& engine, Metrics& metrics,
                 std::function<void(bool alive)> on_change);
  ~HeartbeatWatch() { Stop(); }
  HeartbeatWatch(const HeartbeatWatch&) = delete;
  HeartbeatWatch& operator=(const HeartbeatWatch&) = delete;

  // No call comes afterwards. Not to be called by the listener.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Look();
  bool WaitForNext() ABSL_LOCKS_EXCLUDED(mutex_);

  const Engine& engine_;
  Metrics& metrics_;
  const std::function<void(bool alive)> on_change_;
  bool alive_ = true;  // the watch's thread's

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

// grpc.health.v1 for services that are well or not together. gRPC's own reads
// on its polling threads whatever a client sends, some 30 ms for 4 MiB, for
// which all other calls wait. Here that is done on the thread for it, and a
// stream keeps a small request at most, and the one status that is being
// written. Thread-safe.
class HealthService final : public TypedService {
 public:
  // `services` outlives this object; `names` are the full names of the services
  // that are known, beside "" for the server as a whole.
  HealthService(ServiceContext& services, std::vector<std::string> names);

  // Whether new work is taken at all, at first not; whether the compute thread
  // moves, at first so. Health is what both say, and so is the metric for it.
  void SetAccepting(bool accepting) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetAlive(bool alive) ABSL_LOCKS_EXCLUDED(mutex_);

  // The same, with why it is so; never kLoading.
  ServerHealth health() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends each stream once it has told the status: those that are open, and
  // those that come later.
  void EndWatches() ABSL_LOCKS_EXCLUDED(mutex_);

  grpc::ServerUnaryReactor* Check(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::health::v1::HealthCheckResponse* response);
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request);

 private:
  using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;
  class Watcher;

  // What there is to tell of a service.
  struct News {
    ServingStatus status;
    bool last = false;  // there will be no more
  };

  bool Knows(absl::string_view service) const;
  News Latest(bool known) const ABSL_LOCKS_EXCLUDED(mutex_);
  bool Serves() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return accepting_ && alive_;
  }

  void AddWatcher(const std::shared_ptr<Watcher>& watcher)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void RemoveWatcher(const std::shared_ptr<Watcher>& watcher)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TellWatchers() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::vector<std::string> names_;

  mutable Mutex mutex_;  // after a watcher's
  bool accepting_ ABSL_GUARDED_BY(mutex_) = false;
  bool alive_ ABSL_GUARDED_BY(mutex_) = true;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<std::shared_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_RPC_HEALTH_SERVICE_H_
