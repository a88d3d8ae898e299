#ifndef STEADYSTATE_SERVER_SESSION_JOURNAL_H_
#define STEADYSTATE_SERVER_SESSION_JOURNAL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/metrics/metrics.h"
#include "server/session/session_info.h"
#include "server/session/session_store.h"

namespace steadystate {

// So long threads sleep at most that wait for a time: clocks of tests are not
// the one by which they wait.
inline constexpr absl::Duration kMaxSleep = absl::Seconds(1);

// Writes rounds to a store's log, in order, by a thread of its own, and says
// when each is there. A second thread syncs the log once in a while.
//
// While the log cannot be written all rounds fail; it is tried again once a
// second. A round may be there though it failed.
//
// Thread-safe. Nobody waits in a call, but for the destructor.
class Journal {
 public:
  // The round is in the log, or why it may not be. Called by the journal's
  // thread, which holds no lock then; in the order of the rounds.
  using Written = std::function<void(absl::Status)>;
  // Rounds [first, last] have failed, or what was thought to be in the log may
  // be lost with the power: called before those who wait for them are told.
  using Failed = std::function<void(uint64_t first, uint64_t last)>;

  // Of a round that is to be synced first.
  enum class Sync : uint8_t { kLater, kFirst };

  // `next_round`: what was in the log before is below. Answers wait for the
  // next sync where something has been unsynced for twice `sync_interval`. All
  // of them outlive the journal.
  Journal(SessionStore& store, uint64_t next_round,
          absl::Duration sync_interval, const Clock& clock, Metrics& metrics,
          Failed failed);
  // When all that was added has been written, or has failed.
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Adds a round. Without content nothing is written: `written` is called when
  // the rounds before it are there. -> its number.
  uint64_t Add(std::string content, Sync sync, Written written);

  // The number that the next round gets, or an earlier one.
  uint64_t next_round() const ABSL_LOCKS_EXCLUDED(mutex_);

  // What was written up to this round is there after a loss of power, too.
  uint64_t synced() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Do rounds fail now? As Health, but cheap.
  bool failing() const { return failing_.load(std::memory_order_relaxed); }
  // OK, or why rounds fail now: STORE_UNAVAILABLE.
  absl::Status Health() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Round {
    uint64_t number = 0;
    std::string content;
    Sync sync = Sync::kLater;
    Written written;
  };

  void WriteLoop();
  void SyncLoop();
  bool TakeRounds() ABSL_LOCKS_EXCLUDED(mutex_);
  void WriteRounds();
  void TellTaken(const absl::Status& status);
  absl::Status WriteAll();
  void WaitForSync();
  void TryAgain();
  void NoteFailure(const absl::Status& status);

  SessionStore& store_;
  const absl::Duration sync_interval_;
  const Clock& clock_;
  Metrics& metrics_;
  const Failed failed_;

  mutable Mutex mutex_;
  CondVar added_;   // a round, or the end
  CondVar synced_;  // the log, or an attempt has failed; or the end
  std::vector<Round> rounds_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_ ABSL_GUARDED_BY(mutex_);
  absl::Status health_ ABSL_GUARDED_BY(mutex_);
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;  // the last round that was
  uint64_t synced_round_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the oldest round that is not synced was written.
  SteadyTime unsynced_since_ ABSL_GUARDED_BY(mutex_);
  bool sync_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_stopped_ ABSL_GUARDED_BY(mutex_) = false;

  std::atomic<bool> failing_ = false;  // !health_.ok()
  std::vector<Round> taken_;           // the writer's
  // The writer's: when a log that failed may be tried again.
  SteadyTime retry_ = SteadyTime::InfinitePast();

  std::thread syncer_;
  std::thread writer_;  // last: they use all of the above
};

// How a round is written that tells of such a session.
constexpr Journal::Sync SyncOf(Durability durability) {
  return durability == Durability::kSync ? Journal::Sync::kFirst
                                         : Journal::Sync::kLater;
}

}  // namespace steadystate

#endif  // STEADYSTATE_SERVER_SESSION_JOURNAL_H_
