#include "client/load/session_pool.h"

#include <algorithm>
#include <utility>

namespace steadystate::client {

std::optional<Turn> SessionPool::Add(LoadSession& session, LoadTime now) {
  const MutexLock lock(mutex_);
  ++counts_.alive;
  return BeginNext(session, now);
}

std::optional<Turn> SessionPool::GiveBack(LoadSession& session, LoadTime now) {
  const MutexLock lock(mutex_);
  return BeginNext(session, now);
}

void SessionPool::Retire() {
  const MutexLock lock(mutex_);
  --counts_.alive;
  changed_.SignalOne();
}

std::optional<Turn> SessionPool::Arrive(LoadTime intended) {
  const MutexLock lock(mutex_);
  if (stopped_) return std::nullopt;
  if (free_.empty()) {
    if (backlog_.size() == max_backlog_) {
      ++unsent_;
      return std::nullopt;
    }
    backlog_.push_back(intended);
    peak_backlog_ = std::max(peak_backlog_, backlog_.size());
    return std::nullopt;
  }
  LoadSession* const session = free_.front();
  free_.pop_front();
  ++counts_.busy;
  return Turn{session, intended};
}

// The session has nothing to do.
std::optional<Turn> SessionPool::BeginNext(LoadSession& session, LoadTime now) {
  if (!backlog_.empty()) {
    const LoadTime intended = backlog_.front();
    backlog_.pop_front();
    ++counts_.busy;
    return Turn{&session, intended};
  }
  if (open_loop_ || stopped_) {
    free_.push_back(&session);
    return std::nullopt;
  }
  ++counts_.busy;
  return Turn{&session, now};
}

std::optional<Turn> SessionPool::Finish(LoadSession& session, SessionFate fate,
                                        LoadTime now) {
  std::optional<Turn> next;
  bool tell = false;
  {
    const MutexLock lock(mutex_);
    --counts_.busy;
    switch (fate) {
      case SessionFate::kGoesOn:
        next = BeginNext(session, now);
        break;
      case SessionFate::kBroken:
        broken_.push_back(&session);
        broken_changed_.SignalOne();
        break;
      case SessionFate::kRetired:
        --counts_.alive;
        break;
    }
    tell = fate == SessionFate::kRetired || Quiet();
  }
  if (tell) changed_.SignalOne();
  return next;
}

LoadSession* SessionPool::TakeBroken() {
  const MutexLock lock(mutex_);
  if (broken_.empty()) return nullptr;
  LoadSession* const session = broken_.front();
  broken_.pop_front();
  return session;
}

bool SessionPool::WaitForBroken(LoadTime time) {
  const MutexLock lock(mutex_);
  while (broken_.empty() && !mending_over_ &&
         broken_changed_.WaitUntil(mutex_, time)) {
  }
  return !mending_over_;
}

void SessionPool::StopMending() {
  const MutexLock lock(mutex_);
  mending_over_ = true;
  broken_changed_.SignalOne();
}

std::deque<LoadTime> SessionPool::Stop(bool cut) {
  const MutexLock lock(mutex_);
  stopped_ = true;
  if (!cut) return {};
  cut_ = true;
  unsent_ += backlog_.size();
  return std::exchange(backlog_, {});
}

SessionPool::Counts SessionPool::counts() const {
  const MutexLock lock(mutex_);
  Counts counts = counts_;
  counts.backlog = backlog_.size();
  return counts;
}

size_t SessionPool::peak_backlog() const {
  const MutexLock lock(mutex_);
  return peak_backlog_;
}

uint64_t SessionPool::unsent() const {
  const MutexLock lock(mutex_);
  return unsent_;
}

bool SessionPool::Quiet() const {
  return stopped_ && counts_.busy == 0 && backlog_.empty();
}

void SessionPool::WaitUntil(LoadTime time) {
  const MutexLock lock(mutex_);
  while (counts_.alive > 0 && !Quiet() && changed_.WaitUntil(mutex_, time)) {
  }
}

}  // namespace steadystate::client
