#include "server/rpc/session_watchers.h"

#include <pthread.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/base/error.h"
#include "server/base/parking.h"

namespace steadystate {
namespace {

// So long after one look for events the next one comes at the earliest: what
// happens meanwhile shares a message.
constexpr std::chrono::milliseconds kApart{5};

absl::Status TooMany(size_t watching) {
  return MakeError(
      ErrorReason::kQueueFull,
      absl::StrCat(watching, " calls watch sessions; ", SessionWatchers::kMost,
                   " may, and those of a connection may be an eighth of what "
                   "they leave: end some, or try again"),
      {{"bounds", absl::StrCat(SessionWatchers::kMost)}}, absl::Seconds(1));
}

}  // namespace

SessionWatchers::SessionWatchers(SessionEvents& events, Metrics& metrics)
    : events_(events),
      metrics_(metrics),
      share_(kMost, kOwn, kParts),
      thread_([this] { Loop(); }) {
  events_.AddListener(*this);
}

absl::Status SessionWatchers::Add(ClientId client,
                                  std::shared_ptr<Watcher> watcher) {
  {
    const MutexLock lock(watchers_mutex_);
    if (!share_.HasRoom(client, 1)) return TooMany(watchers_.size());
    share_.Take(client, 1);
    watchers_.insert(watcher);
    metrics_.SetSessionWatchers(watchers_.size());
  }
  const MutexLock lock(mutex_);
  ++watching_;
  asking_.push_back(std::move(watcher));
  changed_.SignalOne();
  return absl::OkStatus();
}

void SessionWatchers::Remove(ClientId client,
                             const std::shared_ptr<Watcher>& watcher) {
  {
    const MutexLock lock(watchers_mutex_);
    if (watchers_.erase(watcher) == 0) return;
    share_.GiveBack(client, 1);
    metrics_.SetSessionWatchers(watchers_.size());
  }
  const MutexLock lock(mutex_);
  --watching_;
}

void SessionWatchers::Ask(std::shared_ptr<Watcher> watcher) {
  const MutexLock lock(mutex_);
  asking_.push_back(std::move(watcher));
  changed_.SignalOne();
}

void SessionWatchers::Stop() {
  // After the first time the events may be gone.
  if (!thread_.joinable()) return;
  events_.RemoveListener(*this);
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.SignalOne();
  }
  thread_.join();
}

void SessionWatchers::OnEvent() {
  const MutexLock lock(mutex_);
  if (news_ || watching_ == 0) return;
  news_ = true;
  changed_.SignalOne();
}

void SessionWatchers::Loop() {
  pthread_setname_np(pthread_self(), "watch");  // as tools show it
  Time earliest = std::chrono::steady_clock::now();
  Round round;
  while (true) {
    const Wanted wanted = WaitUntilWanted(earliest, round);
    if (wanted == Wanted::kByNobody) return;
    if (wanted == Wanted::kByAll) {
      earliest = std::chrono::steady_clock::now() + kApart;
      round = All();
    }
    for (const std::shared_ptr<Watcher>& watcher : round) {
      MayPark("SessionWatchers::Loop");
      watcher->Look();
    }
    round.clear();
  }
}

SessionWatchers::Wanted SessionWatchers::WaitUntilWanted(Time earliest,
                                                         Round& asking) {
  const MutexLock lock(mutex_);
  while (!stop_) {
    const auto left = earliest - std::chrono::steady_clock::now();
    if (news_ && left <= std::chrono::nanoseconds::zero()) {
      news_ = false;
      asking_.clear();
      return Wanted::kByAll;
    }
    if (!asking_.empty()) {
      asking.swap(asking_);
      return Wanted::kBySome;
    }
    if (news_) {
      changed_.WaitFor(mutex_, left);
    } else {
      changed_.Wait(mutex_);
    }
  }
  return Wanted::kByNobody;
}

SessionWatchers::Round SessionWatchers::All() {
  const MutexLock lock(watchers_mutex_);
  return {watchers_.begin(), watchers_.end()};
}

}  // namespace steadystate
