#include "server/session/session_remover.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "server/base/error.h"
#include "server/base/parking.h"
#include "server/session/journal.h"
#include "server/session/log_entry.h"

namespace steadystate {
namespace {

// How long sessions stay in the store when the log fails, before it is asked
// again.
constexpr absl::Duration kRemoveRetry = absl::Seconds(1);

// Sessions that leave the store together.
constexpr size_t kRemovedAtOnce = 256;

// Says that they are removed, or why not. Then nobody waits for it any more,
// but they shall not come back.
void EndRemovals(Shelf& shelf, std::vector<Shelf::Removal> removals,
                 const absl::Status& status) {
  for (Shelf::Removal& removal : removals) {
    if (removal.removed)
      std::exchange(removal.removed, nullptr)(CloneError(status));
  }
  if (status.ok()) return;
  const MutexLock lock(shelf.mutex);
  for (Shelf::Removal& removal : removals) {
    shelf.removals.push_back(std::move(removal));
  }
}

}  // namespace

bool SessionRemover::MayRemove() const {
  return saver_.MayStore() && clock_.Now() >= retry_;
}

// False if there were none, or the store has failed, or the log.
bool SessionRemover::RemoveSome() {
  if (!MayRemove()) return false;
  std::vector<Shelf::Removal> removals;
  absl::Status health;
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.journal != nullptr) health = shelf_.journal->Health();
    std::vector<Shelf::Removal>& all = shelf_.removals;
    const size_t count = std::min(all.size(), kRemovedAtOnce);
    std::move(all.end() - static_cast<ptrdiff_t>(count), all.end(),
              std::back_inserter(removals));
    all.resize(all.size() - count);
  }
  if (removals.empty()) return false;
  if (!health.ok()) {
    retry_ = clock_.Now() + kRemoveRetry;
    EndRemovals(shelf_, std::move(removals), health);
    return false;
  }
  std::vector<SessionUid> uids;
  uids.reserve(removals.size());
  for (const Shelf::Removal& removal : removals) uids.push_back(removal.uid);
  MayPark("SessionKeeper::RemoveSome");
  const absl::Status status = archive_->Remove(uids);
  if (!status.ok()) saver_.NoteFailure(status);
  if (status.ok()) {
    LogRemoved(std::move(removals));
    return true;
  }
  EndRemovals(shelf_, std::move(removals), status);
  return false;
}

// What is not in the store must not come back by the log. The shelf outlives
// the journal, which calls back; the thread may not.
void SessionRemover::LogRemoved(std::vector<Shelf::Removal> removals) {
  std::string content;
  LogEntryWriter entries(content, archive_->numerics_tag());
  bool sync = false;
  bool logged = false;
  for (const Shelf::Removal& removal : removals) {
    entries.Removed(removal.uid);
    sync = sync || removal.sync;
    logged = logged || removal.logged;
  }
  const auto shared =
      std::make_shared<std::vector<Shelf::Removal>>(std::move(removals));
  const auto written = [&shelf = shelf_, shared](const absl::Status& status) {
    EndRemovals(shelf, std::move(*shared), status);
  };
  {
    const MutexLock lock(shelf_.mutex);
    if (shelf_.journal != nullptr && logged) {
      shelf_.journal->Add(std::move(content),
                          sync ? Journal::Sync::kFirst : Journal::Sync::kLater,
                          written);
      return;
    }
  }
  written(absl::OkStatus());
}

}  // namespace steadystate
