#include "server/session/removals.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "server/base/error.h"

namespace steadystate {

void Removals::Told::Add(Removed removed, const absl::Status& status) {
  all_.emplace_back(std::move(removed), CloneError(status));
}

void Removals::Told::Tell() {
  for (auto& [removed, status] : all_) removed(status);
  all_.clear();
}

void Removals::Add(Removal removal, Removed removed) {
  removal.number = ++last_number_;
  if (!removal.name.empty()) {
    Named& named = named_[removal.name];
    named.under_way.emplace(removal.number, removal.logged);
    named.keeps_name = named.keeps_name || removal.keeps_name;
    if (removed) {
      named.waiting.emplace_back(removal.number, std::move(removed));
      new_waiter_ = true;
    }
  }
  Need(removal.needs);
  (removal.logged ? to_log_ : to_drop_).push_back(std::move(removal));
}

bool Removals::Join(const SessionKey& key, Removed& removed) {
  const auto named = named_.find(NameOf(key));
  if (named == named_.end()) return false;
  named->second.waiting.emplace_back(named->second.under_way.rbegin()->first,
                                     std::exchange(removed, nullptr));
  new_waiter_ = true;
  return true;
}

const Removals::Batch& Removals::BeginLogging(size_t most) {
  while (!to_log_.empty() && logging_.size() < most) {
    logging_.push_back(std::move(to_log_.front()));
    to_log_.pop_front();
  }
  return logging_;
}

void Removals::LoggedBy(uint64_t round) {
  for (Removal& removal : logging_) {
    removal.round = round;
    if (removal.needs != kNoRound) continue;
    // It may be written, and the log cut, before Logged is called.
    removal.needs = round;
    Need(round);
  }
}

void Removals::Logged(const absl::Status& status, Told& told) {
  if (status.ok()) {
    for (Removal& removal : logging_) {
      // As long as the database has it that round has to be there.
      NeedNoMore(std::exchange(removal.needs, removal.round));
      Need(removal.needs);
      Done(removal, told);
      logged_.push_back(std::move(removal));
    }
    logging_.clear();
    return;
  }
  for (auto one = logging_.rbegin(); one != logging_.rend(); ++one) {
    Failed(*one, status, told);
    to_log_.push_front(std::move(*one));
  }
  logging_.clear();
}

Removals::Batch Removals::TakeToDrop(size_t most, uint64_t synced) {
  Batch batch;
  while (batch.size() < most && !to_drop_.empty()) {
    batch.push_back(std::move(to_drop_.front()));
    to_drop_.pop_front();
  }
  while (batch.size() < most && !logged_.empty() && IsSafe(synced)) {
    batch.push_back(std::move(logged_.front()));
    logged_.pop_front();
  }
  return batch;
}

void Removals::Dropped(Batch batch, const absl::Status& status, Told& told) {
  if (status.ok()) {
    for (const Removal& removal : batch) {
      NeedNoMore(removal.needs);
      if (!removal.logged) Done(removal, told);
    }
    return;
  }
  for (auto one = batch.rbegin(); one != batch.rend(); ++one) {
    if (!one->logged) Failed(*one, status, told);
    (one->logged ? logged_ : to_drop_).push_front(std::move(*one));
  }
}

void Removals::FailWaiting(bool logged, const absl::Status& status,
                           Told& told) {
  // What is with the log is being tried.
  const auto is_stuck = [&](const std::pair<const uint64_t, bool>& one) {
    return one.second == logged &&
           std::none_of(logging_.begin(), logging_.end(),
                        [&](const Removal& removal) {
                          return removal.number == one.first;
                        });
  };
  for (auto& [name, named] : named_) {
    if (named.waiting.empty()) continue;
    const auto stuck =
        std::find_if(named.under_way.begin(), named.under_way.end(), is_stuck);
    if (stuck == named.under_way.end()) continue;
    Fail(name, named, stuck->first, status, told);
  }
}

void Removals::Break(uint64_t first, uint64_t last) {
  std::deque<Removal> left;
  for (auto one = logged_.rbegin(); one != logged_.rend(); ++one) {
    const bool broken = one->round >= first && one->round <= last;
    (broken ? to_log_ : left).push_front(std::move(*one));
  }
  logged_ = std::move(left);
}

void Removals::Need(uint64_t round) {
  if (round != kNoRound) needed_.insert(round);
}

void Removals::NeedNoMore(uint64_t round) {
  if (round != kNoRound) needed_.erase(needed_.find(round));
}

// The session will not come back.
void Removals::Done(const Removal& removal, Told& told) {
  const auto found = named_.find(removal.name);
  if (found == named_.end()) return;
  Named& named = found->second;
  // What the log is told of again was done before.
  if (named.under_way.erase(removal.number) == 0) return;
  const uint64_t oldest =
      named.under_way.empty() ? kNoRound : named.under_way.begin()->first;
  std::erase_if(named.waiting, [&](auto& waits) {
    if (waits.first >= oldest) return false;
    told.Add(std::move(waits.second), absl::OkStatus());
    return true;
  });
  if (!named.under_way.empty()) return;
  if (named.kept) table_.GiveBackName(removal.name);
  named_.erase(found);
}

// It is tried again.
void Removals::Failed(const Removal& removal, const absl::Status& status,
                      Told& told) {
  const auto found = named_.find(removal.name);
  if (found == named_.end()) return;
  Named& named = found->second;
  if (!named.under_way.contains(removal.number)) return;
  Fail(removal.name, named, removal.number, status, told);
}

// Tells those who wait for that one, or for later ones.
void Removals::Fail(const std::string& name, Named& named, uint64_t number,
                    const absl::Status& status, Told& told) {
  if (named.keeps_name && !std::exchange(named.kept, true)) {
    table_.KeepName(name);
  }
  std::erase_if(named.waiting, [&](auto& waits) {
    if (waits.first < number) return false;
    told.Add(std::move(waits.second), status);
    return true;
  });
}

}  // namespace steadystate
