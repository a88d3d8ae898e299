#include "server/rpc/health_service.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "grpcpp/support/status.h"
#include "server/base/clock.h"
#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"
#include "server/rpc/answer.h"

namespace steadystate {
namespace {

constexpr std::chrono::milliseconds kInterval{500};

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

// More than one with any name of a service takes. gRPC keeps the request for
// as long as a stream is open.
constexpr size_t kMaxWatchBytes = 4 << 10;

// INVALID_ARGUMENT: it takes too much to be kept.
absl::Status CheckSize(const HealthCheckRequest& request) {
  const size_t bytes = request.SpaceUsedLong();
  if (bytes <= kMaxWatchBytes) return absl::OkStatus();
  return MakeError(
      ErrorReason::kInvalidArgument,
      absl::StrCat("the request takes ", bytes,
                   " bytes of memory for as long as its stream is open; at "
                   "most ",
                   kMaxWatchBytes, " are allowed: send a service's name alone"),
      {{"field", "the request"},
       {"value", absl::StrCat(bytes, " bytes")},
       {"bounds", absl::StrCat("at most ", kMaxWatchBytes, " in memory")}});
}

}  // namespace

HeartbeatWatch::HeartbeatWatch(const Engine& engine, Metrics& metrics,
                               std::function<void(bool alive)> on_change)
    : engine_(engine),
      metrics_(metrics),
      on_change_(std::move(on_change)),
      thread_([this] { Loop(); }) {}

void HeartbeatWatch::Stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    stopped_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

void HeartbeatWatch::Loop() {
  do {
    Look();
  } while (WaitForNext());
}

void HeartbeatWatch::Look() {
  // Read before the clock, so that its age is none below zero.
  const SteadyTime heartbeat = engine_.heartbeat();
  const absl::Duration age = engine_.clock().Now() - heartbeat;
  metrics_.SetHeartbeatAge(age);
  const bool alive = age <= kMaxHeartbeatAge;
  if (alive == alive_) return;
  alive_ = alive;
  if (alive) {
    LogInfo("the compute thread moves again");
  } else {
    LogError("the compute thread does not move: no request advances",
             {{"heartbeat_age", absl::FormatDuration(age)}});
  }
  on_change_(alive);
}

bool HeartbeatWatch::WaitForNext() {
  const MutexLock lock(mutex_);
  if (!stop_) stopped_.WaitFor(mutex_, kInterval);
  return !stop_;
}

// One stream. What it does next, write the latest status, end or wait, is
// decided under its lock whenever something has changed or been done. The
// object owns itself from Start to the reactor's OnDone; the service, which
// tells it of changes, shares it for as long as it does.
class HealthService::Watcher final
    : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  // Called within the method's handler: gRPC reacts only after it returned.
  static Watcher* Start(HealthService& service, bool known) {
    const std::shared_ptr<Watcher> watcher(new Watcher(service, known));
    watcher->self_ = watcher;
    service.AddWatcher(watcher);
    MayPark("Watcher::Start");
    watcher->GoOn();
    return watcher.get();
  }

  // There may be something new to tell.
  void GoOn() ABSL_LOCKS_EXCLUDED(mutex_) {
    Actions actions;
    {
      const MutexLock lock(mutex_);
      actions = Decide();
    }
    Act(actions);
  }

  // Reactor: called by gRPC.

  void OnWriteDone(bool ok) override {
    MayPark("Watcher::OnWriteDone");
    Actions actions;
    {
      const MutexLock lock(mutex_);
      writing_ = false;
      if (!ok) broken_ = true;
      actions = Decide();
    }
    Act(actions);
  }

  void OnCancel() override {
    Actions actions;
    {
      const MutexLock lock(mutex_);
      broken_ = true;
      actions = Decide();
    }
    Act(actions);
  }

  void OnDone() override {
    const std::shared_ptr<Watcher> self = std::move(self_);
    service_.RemoveWatcher(self);
  }

 private:
  // What to do once mutex_ is released.
  struct Actions {
    const HealthCheckResponse* write = nullptr;
    std::optional<grpc::Status> finish;
  };

  Watcher(HealthService& service, bool known)
      : service_(service), known_(known) {}

  // Asks for the latest status under the lock, so that no older one is written
  // after it.
  Actions Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Actions actions;
    if (writing_ || finished_) return actions;
    const News news = service_.Latest(known_);
    if (broken_) {
      actions.finish = grpc::Status::CANCELLED;
    } else if (news.status != response_.status()) {
      response_.set_status(news.status);
      actions.write = &response_;
    } else if (news.last) {
      actions.finish = ToGrpcStatus(ToPublicError(DrainingError()));
    }
    writing_ = actions.write != nullptr;
    finished_ = actions.finish.has_value();
    return actions;
  }

  void Act(const Actions& actions) ABSL_LOCKS_EXCLUDED(mutex_) {
    MayPark("Watcher::Act");
    if (actions.write != nullptr) {
      StartWrite(actions.write);
      MayPark("Watcher::Act, write started");
    }
    // The last thing that happens: the call may be over afterwards.
    if (actions.finish.has_value()) {
      Finish(*actions.finish);
      MayPark("Watcher::Act, finished");
    }
  }

  HealthService& service_;
  const bool known_;
  std::shared_ptr<Watcher> self_;  // from Start to OnDone

  Mutex mutex_;  // before the service's
  // What was told last; gRPC reads it while it is written.
  HealthCheckResponse response_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;  // nobody hears us any more
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

HealthService::HealthService(ServiceContext& services,
                             std::vector<std::string> names)
    : TypedService(services), names_(std::move(names)) {
  Add("/grpc.health.v1.Health/Check", &HealthService::Check);
  Add("/grpc.health.v1.Health/Watch", &HealthService::Watch);
}

void HealthService::SetAccepting(bool accepting) {
  {
    const MutexLock lock(mutex_);
    accepting_ = accepting;
    services_.metrics.SetReady(Serves());
  }
  TellWatchers();
}

void HealthService::SetAlive(bool alive) {
  {
    const MutexLock lock(mutex_);
    alive_ = alive;
    services_.metrics.SetReady(Serves());
  }
  TellWatchers();
}

ServerHealth HealthService::health() const {
  const MutexLock lock(mutex_);
  if (!alive_) return ServerHealth::kStuck;
  return accepting_ ? ServerHealth::kServing : ServerHealth::kDraining;
}

void HealthService::EndWatches() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  TellWatchers();
}

grpc::ServerUnaryReactor* HealthService::Check(
    grpc::CallbackServerContext* context, const HealthCheckRequest* request,
    HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (Knows(request->service())) {
    response->set_status(Latest(true).status);
    reactor->Finish(grpc::Status::OK);
  } else {
    reactor->Finish({grpc::StatusCode::NOT_FOUND, "service name unknown"});
  }
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(
    grpc::CallbackServerContext* /*context*/,
    const HealthCheckRequest* request) {
  const absl::Status size = CheckSize(*request);
  if (!size.ok()) {
    return new RefusedStream<HealthCheckResponse>(
        ToGrpcStatus(ToPublicError(size)));
  }
  return Watcher::Start(*this, Knows(request->service()));
}

bool HealthService::Knows(absl::string_view service) const {
  return service.empty() ||
         std::find(names_.begin(), names_.end(), service) != names_.end();
}

HealthService::News HealthService::Latest(bool known) const {
  const MutexLock lock(mutex_);
  News news = {.status = HealthCheckResponse::SERVICE_UNKNOWN, .last = ending_};
  if (known) {
    news.status = Serves() ? HealthCheckResponse::SERVING
                           : HealthCheckResponse::NOT_SERVING;
  }
  return news;
}

void HealthService::AddWatcher(const std::shared_ptr<Watcher>& watcher) {
  const MutexLock lock(mutex_);
  watchers_.insert(watcher);
}

void HealthService::RemoveWatcher(const std::shared_ptr<Watcher>& watcher) {
  const MutexLock lock(mutex_);
  watchers_.erase(watcher);
}

// One that is added meanwhile learns the latest by itself.
void HealthService::TellWatchers() {
  std::vector<std::shared_ptr<Watcher>> watchers;
  {
    const MutexLock lock(mutex_);
    watchers.assign(watchers_.begin(), watchers_.end());
  }
  for (const std::shared_ptr<Watcher>& watcher : watchers) {
    MayPark("HealthService::TellWatchers");
    watcher->GoOn();
  }
}

}  // namespace steadystate
