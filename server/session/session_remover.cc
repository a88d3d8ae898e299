#include "server/session/session_remover.h"

#include <algorithm>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/session/journal.h"
#include "server/session/log_entry.h"
#include "server/session/session_store.h"

namespace steadystate {
namespace {

// Sessions that leave together.
constexpr size_t kRemovedAtOnce = 256;

}  // namespace

bool SessionRemover::HasWork() const {
  shelf_.mutex.AssertHeld();
  return MayLog() ||
         ((shelf_.removals.may_drop(Synced()) ||
           shelf_.table.expired().has_untold()) &&
          saver_.MayStore()) ||
         shelf_.removals.new_waiter();
}

bool SessionRemover::MayLog() const {
  return shelf_.removals.may_log() && clock_.Now() >= retry_;
}

uint64_t SessionRemover::Synced() const {
  if (shelf_.journal == nullptr) return synced_itself_;
  return std::max(synced_itself_, shelf_.journal->synced());
}

void SessionRemover::RemoveSome() {
  if (archive_ == nullptr) return;
  NoteExpired();
  LogSome();
  DropSome();
  TellWaiting();
}

// False if there were none, or the database fails. Then sessions leave all the
// same, and the next process may not know why.
bool SessionRemover::NoteExpired() {
  if (!saver_.MayStore()) return false;
  std::vector<ExpiredId> untold;
  {
    const MutexLock lock(shelf_.mutex);
    untold = shelf_.table.expired().TakeUntold();
  }
  if (untold.empty()) return false;
  const absl::Status status = archive_->PutExpired(untold);
  if (status.ok()) return true;
  saver_.NoteFailure(status);
  const MutexLock lock(shelf_.mutex);
  shelf_.table.expired().GiveBack(untold);
  return false;
}

// The shelf outlives the journal, which calls back; the thread may not. False
// if there were none, or the log fails.
bool SessionRemover::LogSome() {
  {
    const MutexLock lock(shelf_.mutex);
    if (!MayLog()) return false;
  }
  MayPark("SessionRemover::LogSome");
  const MutexLock lock(shelf_.mutex);
  const absl::Status health = shelf_.journal->Health();
  if (!health.ok()) {
    failure_ = health;
    has_failed_ = true;
    retry_ = clock_.Now() + kStoreRetry;
    return false;
  }
  std::string content;
  LogEntryWriter entries(content, archive_->numerics_tag());
  auto sync = Journal::Sync::kLater;
  for (const Removals::Removal& removal :
       shelf_.removals.BeginLogging(kRemovedAtOnce)) {
    entries.Removed(removal.uid);
    if (removal.sync) sync = Journal::Sync::kFirst;
  }
  // Called when this one lets go of the lock, or later.
  const auto written = [&shelf = shelf_](const absl::Status& status) {
    Removals::Told told;
    {
      const MutexLock callback_lock(shelf.mutex);
      shelf.removals.Logged(status, told);
      shelf.wake.SignalOne();
    }
    told.Tell();
  };
  shelf_.removals.LoggedBy(
      shelf_.journal->Add(std::move(content), sync, written));
  return true;
}

// False if there were none, or the database fails.
bool SessionRemover::DropSome() {
  if (!saver_.MayStore()) return false;
  Removals::Batch batch;
  {
    const MutexLock lock(shelf_.mutex);
    batch = shelf_.removals.TakeToDrop(kRemovedAtOnce, Synced());
  }
  if (batch.empty()) return false;
  MayPark("SessionKeeper::RemoveSome");
  std::vector<SessionUid> uids;
  uids.reserve(batch.size());
  for (const Removals::Removal& removal : batch) uids.push_back(removal.uid);
  const absl::Status status = archive_->Remove(uids);
  if (!status.ok()) {
    saver_.NoteFailure(status);
    has_failed_ = true;
  }
  MayPark("SessionKeeper::RemoveSome, done");
  Removals::Told told;
  {
    const MutexLock lock(shelf_.mutex);
    shelf_.removals.Dropped(std::move(batch), status, told);
  }
  told.Tell();
  return status.ok();
}

// Who comes while log or database are left alone is not kept waiting.
void SessionRemover::TellWaiting() {
  Removals::Told told;
  {
    const MutexLock lock(shelf_.mutex);
    Removals& removals = shelf_.removals;
    if (!removals.new_waiter() && !std::exchange(has_failed_, false)) return;
    removals.ForgetNewWaiters();
    if (clock_.Now() < retry_) removals.FailLogging(failure_, told);
    if (!saver_.MayStore()) removals.FailDropping(saver_.failure(), told);
  }
  told.Tell();
}

void SessionRemover::Finish() {
  if (archive_ == nullptr) return;
  bool more = true;
  while (more) {
    saver_.ForgetFailure();
    retry_ = SteadyTime::InfinitePast();
    more = NoteExpired();
    more = LogSome() || more;
    SyncLog();
    more = DropSome() || more;
    TellWaiting();
  }
}

// What the log is being told is there, and safe from a loss of power.
void SessionRemover::SyncLog() {
  uint64_t through = 0;
  std::future<void> written;
  {
    const MutexLock lock(shelf_.mutex);
    if (!shelf_.removals.awaits_sync()) return;
    const auto told = std::make_shared<std::promise<void>>();
    written = told->get_future();
    through =
        shelf_.journal->Add("", Journal::Sync::kLater,
                            [told](const absl::Status&) { told->set_value(); });
  }
  written.wait();
  if (archive_->store().SyncRounds().ok()) synced_itself_ = through;
}

}  // namespace steadystate
