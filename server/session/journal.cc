#include "server/session/journal.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "server/base/error.h"
#include "server/base/logging.h"
#include "server/base/parking.h"

namespace steadystate {
namespace {

// How often the time is looked at to try a log again that has failed.
constexpr absl::Duration kPoll = absl::Milliseconds(50);

}  // namespace

Journal::Journal(SessionStore& store, uint64_t next_round,
                 absl::Duration sync_interval, const Clock& clock,
                 Metrics& metrics, Failed failed)
    : store_(store),
      sync_interval_(sync_interval),
      clock_(clock),
      metrics_(metrics),
      failed_(std::move(failed)),
      next_(next_round),
      unsynced_since_(SteadyTime::InfiniteFuture()),
      syncer_([this] { SyncLoop(); }),
      writer_([this] { WriteLoop(); }) {}

Journal::~Journal() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    added_.SignalOne();
  }
  writer_.join();
  {
    const MutexLock lock(mutex_);
    writer_stopped_ = true;
    synced_.SignalAll();
  }
  syncer_.join();
}

uint64_t Journal::Add(std::string content, Sync sync, Written written) {
  const MutexLock lock(mutex_);
  const uint64_t number = next_++;
  rounds_.push_back({.number = number,
                     .content = std::move(content),
                     .sync = sync,
                     .written = std::move(written)});
  if (rounds_.size() == 1) added_.SignalOne();
  return number;
}

uint64_t Journal::next_round() const {
  const MutexLock lock(mutex_);
  return next_;
}

uint64_t Journal::synced() const {
  const MutexLock lock(mutex_);
  return synced_round_;
}

absl::Status Journal::Health() const {
  const MutexLock lock(mutex_);
  return CloneError(health_);
}

void Journal::WriteLoop() {
  pthread_setname_np(pthread_self(), "journal");  // as tools show it
  while (TakeRounds()) {
    MayPark("Journal::WriteLoop");
    WriteRounds();
  }
}

// Waits for rounds, or for the time to try again. False at the end.
bool Journal::TakeRounds() {
  taken_.clear();
  const MutexLock lock(mutex_);
  while (rounds_.empty() && !stopping_) {
    if (health_.ok()) {
      added_.Wait(mutex_);
    } else {
      added_.WaitFor(mutex_, absl::ToChronoNanoseconds(kPoll));
      break;
    }
  }
  taken_.swap(rounds_);
  return !taken_.empty() || !stopping_;
}

void Journal::WriteRounds() {
  absl::Status status = Health();
  if (status.ok()) {
    status = WriteAll();
  } else if (!taken_.empty()) {
    failed_(taken_.front().number, taken_.back().number);
  }
  TellTaken(status);
  if (status.ok()) return;
  if (clock_.Now() >= retry_) TryAgain();
}

// Says what became of the rounds that were taken.
void Journal::TellTaken(const absl::Status& status) {
  for (const Round& round : taken_) {
    if (round.written) round.written(CloneError(status));
  }
  taken_.clear();
}

// The rounds that were taken: all of them, or from one on none, and then they
// all count as failed, since a group is answered as one.
absl::Status Journal::WriteAll() {
  const SteadyTime start = clock_.Now();
  uint64_t bytes = 0;
  bool sync = false;
  absl::Status status;
  for (const Round& round : taken_) {
    sync = sync || round.sync == Sync::kFirst;
    if (round.content.empty()) continue;
    status = store_.AppendRound(round.number, round.content);
    if (!status.ok()) break;
    bytes += round.content.size();
  }
  MayPark("Journal, written");
  metrics_.Logged(bytes);
  if (status.ok() && bytes > 0) {
    const MutexLock lock(mutex_);
    unsynced_since_ = std::min(unsynced_since_, start);
    written_ = taken_.back().number;
    // The syncer sleeps until the first.
    if (!std::exchange(sync_wanted_, true)) synced_.SignalAll();
  }
  if (status.ok() && sync) {
    const SteadyTime synced = clock_.Now();
    status = store_.SyncRounds();
    metrics_.LogSynced(clock_.Now() - synced);
    const MutexLock lock(mutex_);
    unsynced_since_ = SteadyTime::InfiniteFuture();
    if (status.ok()) synced_round_ = written_;
  }
  if (!status.ok()) {
    NoteFailure(status);
    return status;
  }
  WaitForSync();
  return Health();
}

// A loss of power shall cost no more than was promised.
void Journal::WaitForSync() {
  const MutexLock lock(mutex_);
  while (health_.ok() && clock_.Now() - unsynced_since_ > 2 * sync_interval_) {
    synced_.WaitFor(mutex_, absl::ToChronoNanoseconds(kMaxSleep));
  }
}

// Rounds that were added while the log failed fail as well: others before them
// have, which they may continue.
void Journal::TryAgain() {
  uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = next_++;
  }
  retry_ = clock_.Now() + kStoreRetry;
  const absl::Status status = store_.AppendRound(number, "");
  if (!status.ok()) {
    const MutexLock lock(mutex_);
    health_ = status;
    return;
  }
  while (true) {
    {
      const MutexLock lock(mutex_);
      taken_.swap(rounds_);
      if (taken_.empty()) {
        LogInfo("log works again", {{"after", health_.message()}});
        health_ = absl::OkStatus();
        failing_ = false;
        return;
      }
    }
    const absl::Status failed = Health();
    failed_(taken_.front().number, taken_.back().number);
    TellTaken(failed);
  }
}

// What had not been synced may be lost as well, however long ago it was
// written.
void Journal::NoteFailure(const absl::Status& status) {
  metrics_.StoreFailed(StoreFailure::kLog);
  LogError("log failed", {{"error", status.message()}});
  uint64_t last = 0;
  {
    const MutexLock lock(mutex_);
    health_ = status;
    failing_ = true;
    added_.SignalOne();  // the writer tries again after a while
    unsynced_since_ = SteadyTime::InfiniteFuture();
    written_ = synced_round_;
    last = next_ - 1;
  }
  failed_(0, last);
}

void Journal::SyncLoop() {
  pthread_setname_np(pthread_self(), "journal-sync");
  while (true) {
    SteadyTime start;
    uint64_t through = 0;
    {
      const MutexLock lock(mutex_);
      while (
          !writer_stopped_ &&
          (!sync_wanted_ || clock_.Now() - unsynced_since_ < sync_interval_)) {
        if (!sync_wanted_) {
          synced_.Wait(mutex_);
        } else {
          const absl::Duration left =
              sync_interval_ - (clock_.Now() - unsynced_since_);
          synced_.WaitFor(mutex_,
                          absl::ToChronoNanoseconds(std::min(left, kMaxSleep)));
        }
        // Somebody else has synced.
        if (unsynced_since_ == SteadyTime::InfiniteFuture()) {
          sync_wanted_ = false;
        }
      }
      if (!sync_wanted_) return;
      sync_wanted_ = false;
      start = clock_.Now();
      through = written_;
    }
    MayPark("Journal::SyncLoop");
    const absl::Status status = store_.SyncRounds();
    metrics_.LogSynced(clock_.Now() - start);
    if (!status.ok()) NoteFailure(status);
    const MutexLock lock(mutex_);
    if (status.ok()) {
      synced_round_ = std::max(synced_round_, std::min(through, written_));
    }
    // What was written since is not in it.
    unsynced_since_ = sync_wanted_ ? start : SteadyTime::InfiniteFuture();
    synced_.SignalAll();
  }
}

}  // namespace steadystate
