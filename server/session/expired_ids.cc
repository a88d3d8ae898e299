#include "server/session/expired_ids.h"

#include <utility>

namespace steadystate {

void ExpiredIds::Add(const SessionKey& key, absl::Time expire_time,
                     Stored stored) {
  std::string name = NameOf(key);
  const auto before = times_.find(name);
  Entry entry = {.expire_time = expire_time, .kept = stored == Stored::kYes};
  entry.stored =
      before != times_.end() ? before->second.stored : untold_.contains(name);
  if (entry.kept || entry.stored) untold_.insert(name);
  Put(std::move(name), entry);
}

void ExpiredIds::AddStored(const ExpiredId& found) {
  Put(found.name, {.expire_time = *found.time, .kept = true, .stored = true});
}

void ExpiredIds::Put(std::string name, Entry entry) {
  entry.number = next_number_++;
  times_.insert_or_assign(name, entry);
  order_.push_back({std::move(name), entry.number});
  if (order_.size() <= max_ids_) return;
  const Order oldest = std::move(order_.front());
  order_.pop_front();
  const auto found = times_.find(oldest.name);
  if (found != times_.end() && found->second.number == oldest.number) {
    Erase(oldest.name);
  }
}

void ExpiredIds::Forget(const SessionKey& key) {
  if (!times_.empty()) Erase(NameOf(key));
}

void ExpiredIds::Erase(const std::string& name) {
  const auto found = times_.find(name);
  if (found == times_.end()) return;
  if (found->second.stored) {
    untold_.insert(name);
  } else {
    untold_.erase(name);
  }
  times_.erase(found);
}

std::optional<absl::Time> ExpiredIds::Find(const SessionKey& key) const {
  const auto entry = times_.find(NameOf(key));
  if (entry == times_.end()) return std::nullopt;
  return entry->second.expire_time;
}

std::vector<ExpiredId> ExpiredIds::TakeUntold() {
  std::vector<ExpiredId> taken;
  taken.reserve(untold_.size());
  for (const std::string& name : untold_) {
    ExpiredId& told = taken.emplace_back();
    told.name = name;
    const auto found = times_.find(name);
    if (found == times_.end()) continue;
    found->second.stored = found->second.kept;
    if (found->second.kept) told.time = found->second.expire_time;
  }
  untold_.clear();
  return taken;
}

void ExpiredIds::GiveBack(const std::vector<ExpiredId>& untold) {
  for (const ExpiredId& one : untold) {
    // It may have been done all the same.
    const auto found = times_.find(one.name);
    if (found != times_.end()) found->second.stored = true;
    untold_.insert(one.name);
  }
}

}  // namespace steadystate
