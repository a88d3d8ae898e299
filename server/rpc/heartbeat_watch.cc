#include "server/rpc/heartbeat_watch.h"

#include <chrono>
#include <utility>

#include "server/base/clock.h"
#include "server/base/logging.h"

namespace steadystate {
namespace {

constexpr std::chrono::milliseconds kInterval{500};

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

}  // namespace steadystate
